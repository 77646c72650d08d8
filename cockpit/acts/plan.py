"""What somebody has pointed at, what an act would hit, what was hit, and how that is merged over hosts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from cockpit.model import Hold, Value
from cockpit.secrets import redact

RAY = "ray"
"""What stands for a host where Ray's job API is asked."""
KUBERNETES = "kubernetes"
"""The same where the API server of Kubernetes is asked."""
APIS = ((RAY,), (KUBERNETES,))
"""`Plan.hosts` of what no host is asked for."""


class Aim(msgspec.Struct, frozen=True):
    """What somebody has pointed at, and how they want it. Nothing named: everything that the act is for."""

    rows: tuple[Any, ...] = ()
    """On the screen: what is tagged, or under the cursor."""
    hosts: tuple[str, ...] = ()
    """Names of hosts; empty for all."""
    shown: str | None = None
    """On the screen: the session that was shown when the key was pressed. Another one is not meant."""
    id: str | None = None
    """Of a job, an actor, a placement group."""
    pids: tuple[int, ...] = ()
    session: str | None = None
    slurm_ids: tuple[str, ...] = ()
    """Of the Slurm job whose nodes the hosts are: where no session is named, that of another job is not meant."""
    sessions: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    """Sessions that we have ended ourselves: none of them is about to come alive."""
    everything: bool = False
    force: bool = False
    only: str | None = None
    """`TERM`: no SIGKILL follows."""
    grace: float | None = None
    older_than: float | None = None
    protected: tuple[str, ...] = ()
    """Paths that look like checkpoints or core dumps, to be deleted all the same."""
    requests: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    """What each host is asked, where they are not all asked the same."""


class Target(Value, frozen=True):
    """One thing that an act is about; which fields it has depends on `what` it is. `None` is unknown, as everywhere."""

    what: str
    """A kind that its act has nouns for; `host`: all that was asked of it."""
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
    """As of a `Process`."""
    part: str | None = None
    """Which part of a Ray it is, when that Ray is to be stopped."""
    beyond: bool | None = None
    """It belongs to none of what was aimed at, and would be hit all the same."""
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
    """Its job is over, and it still holds what it holds."""
    reason: str | None = None
    """Why it was refused."""
    error: str | None = None
    """Why it failed."""
    outcome: str | None = None
    """What became of it."""
    facts: Mapping[str, Any] | None = None
    """What a host on which Ray is to be started says of itself."""

    @property
    def gpu_memory(self) -> int | None:
        """Bytes over all GPUs; `None` when NVML won't say for any of them."""
        known = [hold.memory for hold in self.gpus if hold.memory is not None]
        return sum(known) if known else None


class Unreached(Value, frozen=True):
    """A host that could not be asked, and why."""

    host: str
    error: str


class Freed(Value, frozen=True):
    """Bytes that were measured free after an act; `None` where nobody could measure."""

    gpu: int | None = None
    disk: int | None = None
    shm: int | None = None


class Plan(Value, frozen=True):
    """Exactly what an act would do. Nothing else is ever touched when it is carried out."""

    act: str
    title: str
    targets: tuple[Target, ...] = ()
    refused: tuple[Target, ...] = ()
    unknown: tuple[str, ...] = ()
    """Why there may be more to do than the targets, in sentences; empty when everything could be judged."""
    notes: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    """What ends with it, in sentences; empty when no live work does."""
    unreached: tuple[Unreached, ...] = ()
    hosts: tuple[str, ...] = ()
    """All that were asked."""
    word: str | None = None
    """What must be typed before it is done; `None`: a plain yes will do."""
    requests: Mapping[str, Mapping[str, Any]] = {}
    """What each host is sent besides the targets."""
    titles: Mapping[str, str] = {}
    """By host, what people call it; none: by its own name."""
    session: str | None = None
    """The Ray session that is meant; `None`: it was not known."""
    address: str | None = None
    """Where its dashboard is, as far as that is known."""
    followed: bool = False
    """Whether that session was the followed one when the plan was made."""
    beside: tuple[str, ...] = ()
    """Other Ray sessions that live on the hosts: then the plan says which one is meant."""

    @property
    def empty(self) -> bool:
        """There is nothing to do."""
        return not self.targets

    def receipt(self, **what: Any) -> Receipt:
        """What came of it, or of a part of it."""
        return Receipt(self.act, self.title, hosts=self.hosts, titles=self.titles, **what)


class Receipt(Value, frozen=True):
    """What really happened."""

    act: str
    title: str
    done: tuple[Target, ...] = ()
    refused: tuple[Target, ...] = ()
    failed: tuple[Target, ...] = ()
    notes: tuple[str, ...] = ()
    unreached: tuple[Unreached, ...] = ()
    hosts: tuple[str, ...] = ()
    freed: Freed = Freed()
    took: float = 0.0
    titles: Mapping[str, str] = {}
    """As of a `Plan`."""

    @property
    def well(self) -> bool:
        """Whether everything that was agreed to has been done."""
        return not (self.refused or self.failed or self.unreached)


def count_missed(whole: Plan | Receipt) -> int:
    """How many of the hosts that were asked have given no answer. Hosts that nobody knows of are `unreached` too, and not among these."""
    return sum(one.host in whole.hosts for one in whole.unreached)


class _Driver(msgspec.Struct):
    pid: int
    user: str | None = None
    command: str | None = None


class _Weight(msgspec.Struct):
    """What makes the question of stopping a Ray a grave one."""

    drivers: tuple[_Driver, ...] = ()
    jobs: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


class ProbeReply(msgspec.Struct):
    """What a probe answers, in either stage."""

    targets: tuple[Target, ...] = ()
    done: tuple[Target, ...] = ()
    refused: tuple[Target, ...] = ()
    failed: tuple[Target, ...] = ()
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    freed: Freed | None = None
    weight: _Weight | None = None
    machine: str | None = None
    """What no other host, and no other container, says of itself."""


def reply_of(host: str, answer: Mapping[str, Any], kinds: Collection[str], title: str = "") -> ProbeReply:
    """A probe's answer, typed; its targets are of these kinds, and secrets are taken out of it here. Raises `msgspec.ValidationError`.

    `title`: what people call the host; its own name where that is empty.
    """
    reply = msgspec.convert(answer, ProbeReply, strict=False)
    for name in ("targets", "done", "refused", "failed"):
        if strange := [target.what for target in getattr(reply, name) if target.what not in kinds]:
            raise msgspec.ValidationError(f"Invalid kind of target {strange[0][:40]!r} - at `$.{name}`")
        setattr(reply, name, tuple(_of_host(target, host) for target in getattr(reply, name)))
    for name in ("unknown", "notes"):
        setattr(reply, name, tuple(f"{title or host}: {redact(text)}" for text in getattr(reply, name)))
    return reply


def losses_of(reply: ProbeReply, host: str, *, followed: bool) -> tuple[str, ...]:
    """What this host alone knows to end there; `host` is its title. Of a Ray that is not `followed` that is all that is known."""
    weight = reply.weight or _Weight()
    drivers = [
        f"driver {one.pid} of {one.user or '?'} on {host} loses its connection to Ray: {redact(one.command or '')}"
        for one in weight.drivers
    ]
    others = [f"other users have work in this Ray session on {host}: {', '.join(weight.others)}"] if weight.others else []
    jobs = [f"job {job} runs on {host}; what else ends is unknown" for job in weight.jobs if not followed]
    return (*drivers, *others, *jobs)


def _of_host(target: Target, host: str) -> Target:
    texts = {name: getattr(target, name) for name in ("command", "reason", "error", "outcome", "name", "namespace")}
    safe = {name: text and redact(text) for name, text in texts.items()}
    return msgspec.structs.replace(target, host=host, why=tuple(map(redact, target.why)), **safe)


def sum_freed(parts: Iterable[Freed | None]) -> Freed:
    """Over hosts; what one of them could not measure is unknown in all."""
    known = [part for part in parts if part is not None]
    return Freed(**{name: _sum([getattr(part, name) for part in known]) for name in Freed.__struct_fields__})


def _sum(amounts: list[int | None]) -> int | None:
    measured = [amount for amount in amounts if amount is not None]
    return sum(measured) if measured and len(measured) == len(amounts) else None
