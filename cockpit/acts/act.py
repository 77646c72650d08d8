"""What an act is: what it may be aimed at, what it would do, how that is done, and which live work ends with it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import msgspec

from cockpit.acts.plan import Aim, Plan, Receipt, Target
from cockpit.model import Snapshot

if TYPE_CHECKING:
    from cockpit.acts.world import ActContext, Hear  # deferred: it imports the way to hosts, which keys and help don't need

Nouns = Mapping[str, tuple[str, str]]
"""Of each kind of target (`Target.what`) the word for one and the word for several."""
Operand = Literal["hosts", "id", "ray_id"]
"""What follows the name of a command: hosts, an id as people gave it, an id in hex as Ray made it."""


class Flag(msgspec.Struct, frozen=True):
    """A flag of an act's command."""

    field: str
    """What it says of the `Aim`."""
    option: str
    kind: Literal["switch", "seconds", "age", "pid", "name", "path"]
    help: str
    metavar: str | None = None
    many: bool = False


class Impact(msgspec.Struct, frozen=True):
    """How grave a plan is."""

    ends: tuple[str, ...] = ()
    """Which live work ends with it, in sentences."""
    word: str | None = None
    """What must be typed before it is done; `None`: a plain yes will do."""


MIN_WORD_CHARS = 4
"""Fewer would be typed by accident; in a container Ray is started by a pid of one or two digits."""


def session_word(session: str) -> str:
    """What is typed for a session: the last block of its name, which is the pid that Ray was started by, with that before it if short."""
    before, _, last = session.rpartition("_")
    word = last if len(last) >= MIN_WORD_CHARS else f"{before.rpartition('_')[2]}_{last}"
    return word if before and len(word) >= MIN_WORD_CHARS else session


def plan_one(act: Operation, target: Target, notes: tuple[str, ...]) -> Plan:
    """The plan of what is done to one thing by an API; a target with a reason is refused."""
    targets, refused = ((), (target,)) if target.reason else ((target,), ())
    return Plan(act.id, act.title, targets=targets, refused=refused, notes=notes, hosts=(target.host,))


class DiskRead(msgspec.Struct, frozen=True):
    """What has to be read from a disk before an act can be planned."""

    what: str
    read: Callable[[], Aim | str]
    """May block; a text says why there is nothing to aim at."""


class Operation(Protocol):
    """Something that an operator can choose: keys, footer, palette, help and commands are made from it."""

    id: ClassVar[str]
    """Also the name of its command."""
    keys: ClassVar[str]
    """With commas between; the footer shows the first. Acts that take different rows may share one."""
    title: ClassVar[str]
    """Two words at most: footer, palette, button and the first words of its plan."""
    help: ClassVar[str]
    """What it does, without a full stop."""
    command: ClassVar[bool] = True
    """`False`: what it is aimed at can be chosen on the screen alone."""
    takes: ClassVar[type[Any] | None] = None
    """What must be under the cursor; `None`: it needs nothing there."""
    noun: ClassVar[str] = ""
    """That thing in a sentence: `put the cursor on a job`."""
    also_takes: ClassVar[type[Any] | None] = None
    """What it is aimed at where that is chosen, though it needs nothing under the cursor."""
    takes_of_finding: ClassVar[type[Any] | None] = None
    """What it is aimed at where a finding that it mends names such things: then nothing else on their hosts is touched."""
    max_rows: ClassVar[int | None] = 1
    """How many such things at the most; `None`: any number."""
    why_not_in_pods: ClassVar[str | None] = None
    """Why it is not done where KubeRay runs this Ray, and what is done instead; `None`: it is done there too."""
    key_again: ClassVar[str | None] = None
    """What its key does when it is pressed again in its dialog: agree, where nothing that lives ends with it. `None`: nothing."""
    ends_nothing_alive: ClassVar[bool] = False
    """Whether nothing that lives can end with it: a finding that it mends then offers it first, before a look at the cause."""
    starts_job: ClassVar[bool] = False
    """Whether what is done is a job, whose log somebody will want to see."""

    @property
    def first_key(self) -> str:
        """For the footer."""
        return self.keys.split(",")[0]

    def why_not(self, row: Any) -> str | None:  # most things of the right kind will do
        """Why it can't be done to this thing, in a sentence; `None`: it can."""
        return None

    def aim_at(self, rows: Sequence[Any]) -> Aim | str:
        """The aim at things of the kind that it takes; a text says why they can't be aimed at together."""
        if self.max_rows is not None and len(rows) > self.max_rows:
            most = "one" if self.max_rows == 1 else f"at most {self.max_rows}"
            return f"{self.title}: {most} at a time, but {len(rows)} are tagged"
        return Aim(rows=tuple(rows), id=getattr(rows[0], "id", None))

    def find_disk_read(self, row: Any) -> DiskRead | None:  # most acts need no file
        """What must be read before this thing can be aimed at; `None`: nothing."""
        return None


class Runbook(Operation):
    """Acts one after another: each step has a plan of its own, and its dialog asks for all of them at once."""


class Act(Operation, Protocol):
    """What is carried out by `cockpit.acts.executor` alone: planned, agreed to, done."""

    nouns: ClassVar[Nouns]
    flags: ClassVar[tuple[Flag, ...]] = ()
    """Of its command, beyond those that each act has."""
    operand: ClassVar[Operand] = "hosts"
    id_digits: ClassVar[tuple[int, ...]] = ()
    """How long the ids are that Ray makes, in hex, where the operand is one."""
    why_word: ClassVar[str] = "Running work will end."
    """Why a word must be typed, where one must."""
    is_for_followed: ClassVar[bool] = False
    """Whether it is done to the Ray that is followed: it must still be the session that the plan was made for."""
    needs_cluster: ClassVar[bool] = False
    """Whether it can be planned only once it is clear which cluster is meant: what is left over can be found without it."""

    @abstractmethod
    async def plan(self, aim: Aim, context: ActContext, hear: Hear) -> Plan:
        """Exactly what would be hit, as of now, and what is refused, with the reasons. Changes nothing. Raises `SourceError`."""

    @abstractmethod
    async def perform(self, plan: Plan, context: ActContext, hear: Hear) -> Receipt:
        """Do what was planned, to what is still the same thing: its identity is proven again at that moment. Raises `SourceError`."""

    @abstractmethod
    def impact(self, plan: Plan, snapshot: Snapshot, addresses: Mapping[str, str]) -> Impact:
        """Which live work ends with a plan that has targets. `addresses`, by host: Ray may know a host by that alone."""

    def is_asked_for(self, refused: Target, plan: Plan) -> bool:  # a refusal is a failure almost everywhere
        """Whether somebody has asked for what was refused, so that the command has not done all that it should."""
        return True
