"""Processes are ended: those under the cursor, or all that a dead Ray has left over. A probe proves of each what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from cockpit.acts import losses
from cockpit.acts.act import Flag, Impact, Nouns, session_word
from cockpit.acts.on_hosts import FORCE, GRACE, HostAct, owners_of, with_owners, without_none
from cockpit.acts.plan import Aim, Plan, Target
from cockpit.model import LEFT_OVER, Process, Snapshot

if TYPE_CHECKING:
    from cockpit.acts.world import ActContext, Hear

PID = Flag("pids", "--pid", "pid", "Only this process, on this host or HOST. One of another user needs root.", "P", many=True)


class KillAct(HostAct):
    """What all of them share."""

    nouns: ClassVar[Nouns] = {"process": ("process", "processes")}
    grace_s = 10.0
    kills_any_kind: ClassVar[bool] = False
    """Whether chosen processes are killed whatever they are; if not, the probe refuses all that are not left over."""

    def request(self, aim: Aim, host: str) -> dict[str, Any]:
        """Chosen processes with their start times, pids without, or neither: then all that is left over."""
        rows = [[row.pid, row.ticks] for row in aim.rows if isinstance(row, Process) and row.host == host]
        chosen = any(isinstance(row, Process) for row in aim.rows)
        named = rows if chosen else [[pid, None] for pid in aim.pids] if aim.pids else None
        how = {"force": aim.force or None, "only": aim.only, "grace": aim.grace}
        return without_none(act="kill", named=named, any=(chosen and self.kills_any_kind) or None, pids=bool(aim.pids) or None, **how)

    def hosts(self, aim: Aim, context: ActContext) -> tuple[str, ...]:
        """Those of the chosen processes. A pid means one process, on one host."""
        chosen = tuple(sorted({row.host for row in aim.rows if isinstance(row, Process)}))
        return chosen or ((context.monitor.pool.local,) if aim.pids else context.all_hosts)

    async def plan(self, aim: Aim, context: ActContext, hear: Hear) -> Plan:
        """With whose each process is that is another Ray's."""
        return with_owners(await super().plan(aim, context, hear), context.snapshot)

    def impact(self, plan: Plan, snapshot: Snapshot, addresses: Mapping[str, str]) -> Impact:
        """What is left over ends nothing; of all else, the word is what it works for."""
        alive = [target for target in plan.targets if target.kind not in LEFT_OVER]
        known = {(one.host, one.pid, one.ticks): one for one in snapshot.processes or ()}
        processes = [known[key] for target in alive if (key := (target.host, target.pid, target.ticks)) in known]
        others = [target for target, owner in zip(alive, owners_of(alive, snapshot), strict=True) if owner is not None]
        return Impact(losses.lost_with_processes(snapshot, processes), _name_of_work(snapshot, others or alive, ours=not others))


class KillOrphans(KillAct):
    """Of all hosts, or of some; never of another kind than `orphan` and `stale`."""

    id = "kill-orphans"
    keys = "K"
    title = "Kill orphans"
    help = "Kill orphan and stale processes; free GPU memory"
    takes_of_finding = Process
    max_rows = None
    ends_nothing_alive = True
    flags = (PID, FORCE, GRACE)

    def why_not(self, row: Process) -> str | None:
        """The processes of a finding that are proven to be left over."""
        return None if row.left_over and row.ticks is not None else f"process {row.pid} is not known to be left over"


class Kill(KillAct):
    """Of the processes that were chosen, each on its own host, whatever kind they are."""

    id = "kill"
    keys = "K,f9"
    title = "Kill"
    help = "Kill the process under the cursor, or all tagged ones: SIGTERM, then SIGKILL"
    command = False
    takes = Process
    noun = "a process"
    max_rows = None
    kills_any_kind = True

    def why_not(self, row: Process) -> str | None:
        """A pid alone may be given again."""
        if row.ticks is not None:
            return None
        return f"No probe has seen process {row.pid}: its pid may belong to another process by now"


class Terminate(Kill):
    """The same, and no SIGKILL follows."""

    id = "terminate"
    keys = "T"
    title = "Terminate"
    help = "Send only SIGTERM to the process under the cursor, or to all tagged ones"

    def request(self, aim: Aim, host: str) -> dict[str, Any]:
        return super().request(replace(aim, only="TERM"), host)


def _name_of_work(snapshot: Snapshot, targets: Sequence[Target], *, ours: bool) -> str | None:
    """The job of the first of them, else the end of its session's name; its pid for a process of nobody's here, or of another Ray."""
    for target in targets:
        job = next((job.id for job in snapshot.jobs or () if target.job and target.job in (job.job, job.submission)), target.job)
        return (
            (job if ours else None)
            or (session_word(target.session) if target.kind == "ray" and target.session else None)
            or str(target.pid)
        )
    return None
