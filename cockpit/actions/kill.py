"""Defines the actions that end processes: the selected ones, or those left over from a dead Ray. A probe proves the identity of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from cockpit.actions import losses
from cockpit.actions.action import Flag, Impact, Nouns, session_word
from cockpit.actions.on_hosts import FORCE, GRACE, HostAction, owners_of, with_owners, without_none
from cockpit.actions.plan import ActionTarget, Plan
from cockpit.model import LEFT_OVER, Process, Snapshot

if TYPE_CHECKING:
    from cockpit.actions.action_context import ActionContext, OnProgress

PID = Flag("pids", "--pid", "pid", "Only this process, on this host or HOST. One of another user needs root.", "P", many=True)


class KillAction(HostAction):
    """The base class of the actions that end processes."""

    nouns: ClassVar[Nouns] = {"process": ("process", "processes")}
    grace_s = 10.0
    kills_any_kind: ClassVar[bool] = False
    """Kill selected processes of any kind. Otherwise the probe refuses all that are not left over."""

    def request(self, requested: ActionTarget, host: str) -> dict[str, Any]:
        """Name the selected processes with their start times, or pids without, or neither: then all leftovers."""
        rows = [[row.pid, row.ticks] for row in requested.rows if isinstance(row, Process) and row.host == host]
        has_rows = any(isinstance(row, Process) for row in requested.rows)
        named = rows if has_rows else [[pid, None] for pid in requested.pids] if requested.pids else None
        how = {"force": requested.force or None, "only": requested.only, "grace": requested.grace}
        return without_none(
            act="kill", named=named, any=(has_rows and self.kills_any_kind) or None, pids=bool(requested.pids) or None, **how
        )

    def hosts(self, requested: ActionTarget, context: ActionContext) -> tuple[str, ...]:
        """Return the hosts of the selected processes, or all hosts. A pid means one process on one host: this one."""
        hosts = tuple(sorted({row.host for row in requested.rows if isinstance(row, Process)}))
        return hosts or ((context.monitor.pool.local,) if requested.pids else context.all_hosts)

    async def plan(self, requested: ActionTarget, context: ActionContext, on_progress: OnProgress) -> Plan:
        """Plan as every action on hosts, and name the owner of each process of another Ray."""
        return with_owners(await super().plan(requested, context, on_progress), context.snapshot)

    def impact(self, plan: Plan, snapshot: Snapshot, addresses: Mapping[str, str]) -> Impact:
        """Leftovers end nothing. Otherwise the word names the work of the first process, or of the first one of another Ray."""
        alive = [target for target in plan.targets if target.kind not in LEFT_OVER]
        known = {(one.host, one.pid, one.ticks): one for one in snapshot.processes or ()}
        processes = [known[key] for target in alive if (key := (target.host, target.pid, target.ticks)) in known]
        ends = losses.lost_with_processes(snapshot, processes)
        if not alive:
            return Impact(ends)
        others = [target for target, owner in zip(alive, owners_of(alive, snapshot), strict=True) if owner is not None]
        first = (others or alive)[0]
        if first.job and not others:
            return Impact(ends, next((job.id for job in snapshot.jobs or () if first.job in (job.job, job.submission)), first.job))
        return Impact(ends, session_word(first.session) if first.kind == "ray" and first.session else str(first.pid))


class KillOrphans(KillAction):
    """Kills processes of the kinds `orphan` and `stale` only, on all hosts or on some."""

    id = "kill-orphans"
    keys = "K"
    title = "Kill orphans"
    help = "Kill orphan and stale processes; free GPU memory"
    takes_of_finding = Process
    max_rows = None
    ends_nothing_alive = True
    flags = (PID, FORCE, GRACE)

    def why_not(self, row: Process) -> str | None:
        """Allow only processes that are proven to be left over."""
        return None if row.left_over and row.ticks is not None else f"process {row.pid} is not known to be left over"


class Kill(KillAction):
    """Kills the selected processes of any kind, each on its own host."""

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
        """Refuse a process without a known start time, because a pid alone may have been reused."""
        if row.ticks is not None:
            return None
        return f"No probe has seen process {row.pid}: its pid may belong to another process by now"


class Terminate(Kill):
    """Sends SIGTERM, and no SIGKILL after it."""

    id = "terminate"
    keys = "T"
    title = "Terminate"
    help = "Send only SIGTERM to the process under the cursor, or to all tagged ones"

    def request(self, requested: ActionTarget, host: str) -> dict[str, Any]:
        return super().request(replace(requested, only="TERM"), host)
