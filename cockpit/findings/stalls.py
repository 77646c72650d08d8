"""Jobs whose GPUs do nothing: all of them idle, or waiting for each other at 100 % with little power."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple

from cockpit.findings.facts import Facts
from cockpit.findings.watts import most_watts
from cockpit.limits import OLD
from cockpit.model import LEFT_OVER, Finding, Gpu, Job, Level, Node, Process, Remedy
from cockpit.text import age, clean, plural, size

IDLE, IDLE_STILL = 1.0, 5.0
"""Percent: a GPU that is used no more is idle, and stays so while it is used no more than the other; somebody may look at it."""
SPINS, SPINS_STILL = 95.0, 90.0
"""Percent from which on a GPU is all taken by a kernel, which may be one that waits."""
STILL = 1.2
"""Of the share of power at which a GPU begins to count as waiting: where it ends."""
DOUBT = 3
"""Times as long as else, where something speaks against it."""
ODD = 8
"""At most one GPU of so many is the odd one out."""
APART = 0.25
"""Share of the others' power by which that of the odd one out differs."""
MOST = 100_000.0
"""Watts that no GPU draws, whatever it says."""
LISTED = 8
"""Lines of evidence of one kind."""

Does = Literal["idle", "spins", "lost", "works"]


class Marks(NamedTuple):
    """Up to which percent a GPU is idle, and from which on, below which share of its power, it waits."""

    idle: float
    spins: float
    power: float


class Used(NamedTuple):
    """A GPU of a job."""

    node: Node
    gpu: Gpu
    process: Process
    does: Does

    @property
    def text(self) -> str:
        """As people call it."""
        return f"{self.node.title} GPU {self.gpu.label}"


class Spell(NamedTuple):
    """A job none of whose GPUs works."""

    job: Job
    used: Sequence[Used]
    since: float
    lasted: float
    """Seconds; those of which nothing has been heard don't count."""
    silent: float | None
    """Seconds since its log was written to; `None` when that is not known."""
    seen: float | None

    def those(self, does: Does) -> list[Used]:
        """Its GPUs that do this."""
        return [used for used in self.used if used.does == does]


def stalled_jobs(facts: Facts) -> Iterator[Finding]:
    """Running jobs none of whose GPUs works. Of a job that works one GPU is looked at, or a few."""
    busy: frozenset[str] | None = None
    for job_id, holders in _holders(facts).items():
        job = facts.jobs.get(job_id)
        used = _used(facts, job, holders) if job and job.running else None
        if not job or not used:
            continue
        busy = _nobodys(facts) if busy is None else busy
        if not _worked_for(facts, job_id, used, busy):
            spell = _spell(facts, job, used)
            yield from _hung(facts, spell) if spell.those("spins") else _idle(facts, spell)


def _holders(facts: Facts) -> Mapping[str, list[Process]]:
    """By job: the processes of this session that hold GPU memory."""
    session = facts.snapshot.cluster.session
    found: dict[str, list[Process]] = {}
    for process in facts.snapshot.processes or ():
        if process.gpus and process.job and process.kind not in LEFT_OVER and (session is None or process.session in (None, session)):
            found.setdefault(process.job, []).append(process)
    return found


def _used(facts: Facts, job: Job, holders: Iterable[Process]) -> list[Used] | None:
    """The job's GPUs; `None` as soon as one of them works, or nobody knows what it does."""
    marks = _marks(facts, job)
    found: dict[tuple[str, int], Used] = {}
    for process in holders:
        node = facts.nodes.get(process.node or "")
        for hold in process.gpus:
            gpu = _gpu(node, hold.index)
            if node is None or gpu is None:
                return None
            if hold.memory is None and not node.probed:
                continue  # Ray's agent also lists who used a GPU a moment ago
            does = _does(gpu, marks)
            if does is None or does == "works":
                return None
            found[process.node or "", hold.index] = Used(node, gpu, process, does)
    return list(found.values())


def _marks(facts: Facts, job: Job) -> Marks:
    hung, power = facts.found("job-hung", _subject(job)), facts.limits.spin_power
    if hung:
        return Marks(IDLE_STILL, SPINS_STILL, power * STILL)
    return Marks(IDLE_STILL if facts.found("job-stalled", _subject(job)) else IDLE, SPINS, power)


def _gpu(node: Node | None, index: int) -> Gpu | None:
    gpus = (node.gpus if node else None) or ()
    if 0 <= index < len(gpus) and gpus[index].index == index:
        return gpus[index]
    return next((gpu for gpu in gpus if gpu.index == index), None)


def _does(gpu: Gpu, marks: Marks) -> Does | None:
    """`None`: nobody knows. A GPU whose power limit nobody knows may work."""
    if gpu.fault:
        return "lost"
    rate = gpu.utilization
    if rate is None or not 0 <= rate <= 100:
        return None
    if rate <= marks.idle:
        return "idle"
    return "spins" if rate >= marks.spins and _share(gpu) < marks.power else "works"


def _share(gpu: Gpu) -> float:
    """Of its power limit, what it draws; all of it where that is not known. Without a probe its name tells of the limit."""
    power, limit = _watts(gpu) or 0.0, gpu.power_limit or most_watts(gpu.name) or 0.0
    return power / limit if power > 0 and 0 < limit <= MOST else 1.0


def _watts(gpu: Gpu) -> float | None:
    return gpu.power if gpu.power is not None and 0 <= gpu.power <= MOST else None


def _worked_for(facts: Facts, job: str, used: Sequence[Used], busy: Collection[str]) -> bool:
    """Whether something works for whom nobody knows, on a node where the job has processes."""
    return bool(busy) and (
        any(each.node.id in busy for each in used)
        or any(actor.job == job and actor.node in busy for actor in facts.snapshot.actors or ())
    )  # fmt: skip


def _nobodys(facts: Facts) -> frozenset[str]:
    """Nodes on which a GPU works for a process of no known job: an engine that an actor has started is one, where no probe looks."""
    strangers = [
        process for process in facts.snapshot.processes or () if process.kind == "unknown" and process.job is None and process.node
    ]
    return frozenset(
        process.node for process in strangers if process.node and any(_works(facts, process, hold.index) for hold in process.gpus)
    )


def _works(facts: Facts, process: Process, index: int) -> bool:
    gpu = _gpu(facts.nodes.get(process.node or ""), index)
    return gpu is not None and (gpu.utilization or 0) > IDLE and _share(gpu) > facts.limits.spin_power


def _spell(facts: Facts, job: Job, used: Sequence[Used]) -> Spell:
    """How long it has been like this, by facts that were fresh; memory that changes is a sign of life where GPUs are at 100 %."""
    memory = sum(each.gpu.memory_used or 0 for each in used)
    spins = any(each.does == "spins" for each in used)
    lasted = facts.lasts(f"gpus spin at {memory}" if spins else "gpus idle", job.key)
    seen = facts.oldest({each.node.id: each.node for each in used}.values())
    behind = facts.now - seen if seen is not None else 0.0
    return Spell(job, used, facts.now - lasted, max(0.0, lasted - behind), _silent(facts, job), seen)


def _silent(facts: Facts, job: Job) -> float | None:
    """Of hosts whose probes have fallen silent themselves nothing is known."""
    told = [
        max(0.0, facts.now - wrote)
        for host in facts.snapshot.hosts.values()
        for wrote in [host.wrote.get(job.submission or "")]
        if wrote is not None and 0 < wrote <= facts.now + OLD and host.taken is not None and facts.now - host.taken <= OLD
    ]
    return min(told, default=None)


def _idle(facts: Facts, spell: Spell) -> Iterator[Finding]:
    """Where the log is silent too, the shorter of both counts; where it isn't, or can't be seen, much longer."""
    limits, lasted, silent = facts.limits, spell.lasted, spell.silent
    both = min(lasted, silent) if silent is not None else 0.0
    level: Level | None = None
    if both >= limits.idle_for or (silent is None and lasted >= limits.idle_unheard):
        level = "warning"
    elif both >= limits.idle_for / 2 or lasted >= limits.idle_unheard:
        level = "info"
    if level and spell.those("idle"):
        yield _stalled(spell, level)


def _stalled(spell: Spell, level: Level) -> Finding:
    job, idle = spell.job, spell.those("idle")
    held = sum(min(max(0, each.gpu.memory_used or 0), each.gpu.memory_total or 0) for each in idle)
    return Finding(
        code="job-stalled",
        level=level,
        subject=_subject(job),
        text=f"{_all(spell.used)} of {_subject(job)} {'have' if len(spell.used) > 1 else 'has'} been at {_most(idle)} % for "
        f"{age(spell.lasted)}, with {size(held)} of memory in use{_log(spell)}",
        evidence=(*_by_node(spell.used), *_log_line(spell)),
        since=spell.since,
        remedy=Remedy(
            "see what it waits for: the end of its log, and the stacks of its processes (`py-spy dump --pid PID`); "
            "loading a model, saving a checkpoint and judging answers elsewhere look like this too; if it hangs, stop and start it again",
            "stop-job",
        ),
        about=(job.key,),
        seen=spell.seen,
    )


def _hung(facts: Facts, spell: Spell) -> Iterator[Finding]:
    """GPUs that wait for each other. One alone has nobody to wait for."""
    spins, lasted, silent, wait = spell.those("spins"), spell.lasted, spell.silent, facts.limits.spin_for
    if len(spell.used) < 2:
        return
    quiet = silent is not None and silent >= wait
    doubtful = not quiet and (silent is not None or (len(spins) == 1 and len(spell.used) > 2))
    if lasted >= wait * (DOUBT if doubtful else 1):
        yield _waiting(spell, spins, "critical" if lasted >= 2 * wait and not doubtful else "warning")


def _waiting(spell: Spell, spins: Sequence[Used], level: Level) -> Finding:
    job, odd = spell.job, _odd(spell)
    most = max(_watts(each.gpu) or 0 for each in spins)
    number = _all(spins) if len(spins) == len(spell.used) else f"{len(spins)} of {_gpus(len(spell.used))}"
    suspect = f"; the odd one out is {', '.join(each.text for each in odd)}" if odd else ""
    return Finding(
        code="job-hung",
        level=level,
        subject=_subject(job),
        text=f"{number} of {_subject(job)} {'wait' if len(spins) > 1 else 'waits'} for others at 100 % with at most {most:.0f} W "
        f"for {age(spell.lasted)}, as in a collective (NCCL) that hangs{suspect}{_log(spell)}",
        evidence=(*(f"odd one out: {_line(each)}" for each in odd), *_by_node(spell.used), *_log_line(spell)),
        since=spell.since,
        remedy=Remedy(
            "compare the stacks of its ranks (`py-spy dump --pid PID`), the odd one first, and look for Xid errors on its host "
            "(`dmesg | grep -i xid`); then stop the job and start it from its last checkpoint",
            "stop-job",
        ),
        about=(job.key, *dict.fromkeys(each.process.key for each in odd)),
        seen=spell.seen,
    )


def _odd(spell: Spell) -> list[Used]:
    """The few that do what the others don't, or do it with another power."""
    most = max(1, len(spell.used) // ODD)
    spins = spell.those("spins")
    others = [each for each in spell.used if each.does != "spins"]
    if few := next((few for few in (others, spins) if 0 < len(few) <= most and len(few) * 2 < len(spell.used)), None):
        return few
    powers = [power for each in spins if (power := _watts(each.gpu)) is not None]
    if others or len(powers) < 3:  # of two nobody knows which is the odd one
        return []
    usual = median(powers)
    apart = [each for each in spins if (power := _watts(each.gpu)) is not None and abs(power - usual) > APART * usual]
    return apart if len(apart) <= most else []


def _subject(job: Job) -> str:
    return f"job {clean(job.id)[:80]}"


def _gpus(number: int) -> str:
    return plural(number, "GPU")


def _all(used: Sequence[Used]) -> str:
    return {1: "The only GPU", 2: "Both GPUs"}.get(len(used), f"All {len(used)} GPUs")


def _log(spell: Spell) -> str:
    if spell.silent is None:
        return "; whether its log goes on is not known"
    return f", and its log is silent for {age(spell.silent)}" if spell.silent >= spell.lasted / 2 else "; its log goes on"


def _log_line(spell: Spell) -> tuple[str, ...]:
    if spell.silent is None:
        return ()
    return (f"job-driver-{clean(spell.job.submission or '')[:80]}.log was last written to {age(spell.silent)} ago",)


def _most(used: Sequence[Used]) -> str:
    return f"{max(each.gpu.utilization or 0 for each in used):.0f}"


def _by_node(used: Sequence[Used]) -> tuple[str, ...]:
    nodes: dict[str, list[Used]] = {}
    for each in used:
        nodes.setdefault(each.node.key, []).append(each)
    told = tuple(_on_node(each) for each in list(nodes.values())[:LISTED])
    return told if len(nodes) <= LISTED else (*told, f"the same on {plural(len(nodes) - LISTED, 'more node')}")


def _on_node(used: Sequence[Used]) -> str:
    powers = [power for each in used if (power := _watts(each.gpu)) is not None]
    watts = f", {_span(powers)} W" if powers else ""
    gpus = ", ".join(gpu.label for gpu in sorted((each.gpu for each in used), key=lambda gpu: gpu.index))
    return f"{used[0].node.title} GPU {gpus}: {_range(used)}{watts} (`nvidia-smi`)"


def _range(used: Sequence[Used]) -> str:
    rates = [each.gpu.utilization for each in used if each.does != "lost" and each.gpu.utilization is not None]
    return f"{_span(rates)} %" if rates else "lost"


def _span(values: Sequence[float]) -> str:
    return "-".join(dict.fromkeys((f"{min(values):.0f}", f"{max(values):.0f}")))


def _line(used: Used) -> str:
    gpu, process = used.gpu, used.process
    watts = f", {power:.0f} W" if (power := _watts(gpu)) is not None else ""
    return f"{used.text}: {_range((used,))}{watts}, pid {process.pid} {clean(process.name or process.command or '')[:60]}".rstrip()
