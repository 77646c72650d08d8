"""Defines the target of an action (`ActionTarget`), its plan, its receipt, and the reply of a probe, with the sums over several hosts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from cockpit.model import Hold, Value
from cockpit.secrets import redact

RAY = "ray"
"""In place of a host: Ray's job API."""
KUBERNETES = "kubernetes"
"""In place of a host: the API server of Kubernetes."""
APIS = ((RAY,), (KUBERNETES,))
"""`Plan.hosts` of a plan without hosts."""


class ActionTarget(msgspec.Struct, frozen=True):
    """The requested target and options. Without a named target: everything that the action is for."""

    rows: tuple[Any, ...] = ()
    """The selected rows on the screen."""
    hosts: tuple[str, ...] = ()
    """Names of hosts; empty for all."""
    shown: str | None = None
    """The session on the screen when the key was pressed; another session is refused."""
    id: str | None = None
    """Of a job, an actor, a placement group."""
    pids: tuple[int, ...] = ()
    session: str | None = None
    slurm_ids: tuple[str, ...] = ()
    """The Slurm job whose nodes the hosts are: unless a session is named, sessions of other jobs are not meant."""
    sessions: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    """Sessions that cockpit itself has stopped: none of them is just starting."""
    everything: bool = False
    force: bool = False
    only: str | None = None
    """`TERM`: no SIGKILL follows."""
    grace: float | None = None
    """Seconds between SIGTERM and SIGKILL."""
    older_than: float | None = None
    """Seconds."""
    protected: tuple[str, ...] = ()
    """Paths that look like checkpoints or core dumps, to be deleted all the same."""
    requests: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    """The request for each host, if they differ."""


class Target(Value, frozen=True):
    """A thing that an action changes. Its kind `what` decides which fields it has; `None` is unknown."""

    what: str
    """A kind that its action has nouns for; `host`: the whole request to that host."""
    host: str = ""
    why: tuple[str, ...] = ()
    pid: int | None = None
    ticks: int | None = None
    """With the pid, the identity of a process."""
    started: float | None = None
    parent: int | None = None
    user: str | None = None
    command: str | None = None
    state: str | None = None
    rss: int | None = None
    kind: str | None = None
    inside: str | None = None
    """As in `Process`."""
    part: str | None = None
    """Which part of a Ray it is, if that Ray is to be stopped."""
    beyond: bool | None = None
    """It does not belong to the requested target, but is stopped too."""
    job: str | None = None
    session: str | None = None
    gpus: tuple[Hold, ...] = ()
    path: str | None = None
    device: int | None = None
    inode: int | None = None
    """With the device, the identity of a file or folder."""
    size: int | None = None
    files: int | None = None
    age: float | None = None
    owner: str | None = None
    keeps: tuple[str, ...] = ()
    live: bool | None = None
    id: str | None = None
    """Of a job, an actor or a placement group."""
    name: str | None = None
    class_: str | None = msgspec.field(name="class", default=None)
    namespace: str | None = None
    detached: bool | None = None
    node: str | None = None
    leaked: bool | None = None
    """Its job has ended, but it still holds its resources."""
    reason: str | None = None
    """Why it was refused."""
    error: str | None = None
    """Why it failed."""
    outcome: str | None = None
    facts: Mapping[str, Any] | None = None
    """The report of a host on which Ray is to be started."""

    @property
    def gpu_memory(self) -> int | None:
        """Bytes over all GPUs; `None` if NVML reports none of them."""
        known = [hold.memory for hold in self.gpus if hold.memory is not None]
        return sum(known) if known else None


class Unreached(Value, frozen=True):
    """A host that could not be asked, and why."""

    host: str
    error: str


class Freed(Value, frozen=True):
    """Bytes that were measured free after an action; `None` if they could not be measured."""

    gpu: int | None = None
    disk: int | None = None
    shm: int | None = None


class Plan(Value, frozen=True):
    """Exactly the changes of an action. Nothing beyond the plan is touched."""

    action: str
    title: str
    targets: tuple[Target, ...] = ()
    refused: tuple[Target, ...] = ()
    unknown: tuple[str, ...] = ()
    """Why there may be more targets, in sentences; empty if everything could be judged."""
    notes: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    """The live work that ends, in sentences."""
    unreached: tuple[Unreached, ...] = ()
    hosts: tuple[str, ...] = ()
    """All hosts that were asked."""
    word: str | None = None
    """The word that must be typed; `None`: a plain yes is enough."""
    requests: Mapping[str, Mapping[str, Any]] = {}
    """The request for each host, without the targets."""
    titles: Mapping[str, str] = {}
    """The name that people use for each host; a missing host has its own name."""
    session: str | None = None
    """The Ray session that is meant; `None`: unknown."""
    address: str | None = None
    """The URL of that session's dashboard, if known."""
    followed: bool = False
    """Whether that session was the followed one when the plan was made."""
    beside: tuple[str, ...] = ()
    """Other live Ray sessions on the hosts. If there are any, the plan names the session that is meant."""

    @property
    def empty(self) -> bool:
        """There is nothing to do."""
        return not self.targets

    def receipt(self, **what: Any) -> Receipt:
        """Return a receipt of this plan, or of a part of it."""
        return Receipt(self.action, self.title, hosts=self.hosts, titles=self.titles, **what)


class Receipt(Value, frozen=True):
    """The result of an action."""

    action: str
    title: str
    done: tuple[Target, ...] = ()
    refused: tuple[Target, ...] = ()
    failed: tuple[Target, ...] = ()
    notes: tuple[str, ...] = ()
    unreached: tuple[Unreached, ...] = ()
    hosts: tuple[str, ...] = ()
    freed: Freed = Freed()
    took: float = 0.0
    """Seconds."""
    titles: Mapping[str, str] = {}
    """As in `Plan`."""

    @property
    def well(self) -> bool:
        """Whether the whole plan was done."""
        return not (self.refused or self.failed or self.unreached)


def count_missed(whole: Plan | Receipt) -> int:
    """Return how many of the asked hosts gave no answer. Unknown hosts are in `unreached` too, but were not asked."""
    return sum(one.host in whole.hosts for one in whole.unreached)


class _Driver(msgspec.Struct):
    pid: int
    user: str | None = None
    command: str | None = None


class _Weight(msgspec.Struct):
    """The work in a Ray session that is to be stopped, as far as its host can see it."""

    drivers: tuple[_Driver, ...] = ()
    jobs: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Other users."""


class ProbeReply(msgspec.Struct):
    """The reply of a probe, in either stage."""

    targets: tuple[Target, ...] = ()
    done: tuple[Target, ...] = ()
    refused: tuple[Target, ...] = ()
    failed: tuple[Target, ...] = ()
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    freed: Freed | None = None
    weight: _Weight | None = None
    machine: str | None = None
    """A text that is different on every other host and in every other container."""


def reply_of(host: str, answer: Mapping[str, Any], kinds: Collection[str], title: str = "") -> ProbeReply:
    """Return a probe's answer, typed and without secrets. Raises `msgspec.ValidationError`, also for targets of other kinds than these.

    `title` is the name that people use for the host; if empty, its own name.
    """
    reply = msgspec.convert(answer, ProbeReply, strict=False)
    for name in ("targets", "done", "refused", "failed"):
        safe = []
        for target in getattr(reply, name):
            if target.what not in kinds:
                raise msgspec.ValidationError(f"Invalid kind of target {target.what[:40]!r} - at `$.{name}`")
            texts = {key: getattr(target, key) for key in ("command", "reason", "error", "outcome", "name", "namespace")}
            redacted = {key: text and redact(text) for key, text in texts.items()}
            safe.append(msgspec.structs.replace(target, host=host, why=tuple(map(redact, target.why)), **redacted))
        setattr(reply, name, tuple(safe))
    for name in ("unknown", "notes"):
        setattr(reply, name, tuple(f"{title or host}: {redact(text)}" for text in getattr(reply, name)))
    return reply


def losses_of(reply: ProbeReply, host: str, *, followed: bool) -> tuple[str, ...]:
    """Return the losses that only this host knows. `host` is its title. Nothing else is known of a Ray that is not `followed`."""
    weight = reply.weight or _Weight()
    drivers = [
        f"driver {one.pid} of {one.user or '?'} on {host} loses its connection to Ray: {redact(one.command or '')}"
        for one in weight.drivers
    ]
    others = [f"other users have work in this Ray session on {host}: {', '.join(weight.others)}"] if weight.others else []
    jobs = [f"job {job} runs on {host}; what else ends is unknown" for job in weight.jobs if not followed]
    return (*drivers, *others, *jobs)


def sum_freed(parts: Iterable[Freed | None]) -> Freed:
    """Sum over hosts. If one host could not measure an amount, its sum is unknown."""
    known = [part for part in parts if part is not None]
    sums = {}
    for name in Freed.__struct_fields__:
        amounts = [getattr(part, name) for part in known]
        sums[name] = sum(amounts) if amounts and None not in amounts else None
    return Freed(**sums)
