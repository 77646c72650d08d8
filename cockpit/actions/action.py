"""Defines the base of every action: its words, its possible targets, its plan, how it is performed, and which live work it ends."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import msgspec

from cockpit.actions.plan import ActionTarget, Plan, Receipt, Target
from cockpit.model import Snapshot

if TYPE_CHECKING:
    from cockpit.actions.action_context import (  # deferred: it imports the way to hosts, which keys and help don't need
        ActionContext,
        OnProgress,
    )

Nouns = Mapping[str, tuple[str, str]]
"""The noun, singular and plural, for each kind of target (`Target.what`)."""
Operand = Literal["hosts", "id", "ray_id"]
"""The argument of a command: hosts, an id that people gave, or an id in hex that Ray made."""
MIN_WORD_CHARS = 4
"""A shorter word is typed by accident too easily; in a container Ray is started by a pid of one or two digits."""


class Flag(msgspec.Struct, frozen=True):
    """A flag of an action's command."""

    field: str
    """The field of `ActionTarget` that it sets."""
    option: str
    kind: Literal["switch", "seconds", "age", "pid", "name", "path"]
    help: str
    metavar: str | None = None
    many: bool = False


class Impact(msgspec.Struct, frozen=True):
    """The live work that a plan ends, and the confirmation that it needs."""

    ends: tuple[str, ...] = ()
    """One sentence for each loss."""
    word: str | None = None
    """The word that must be typed; `None`: a plain yes is enough."""


def session_word(session: str) -> str:
    """Return the word to be typed for a session: the last block of its name, the pid that started Ray; two blocks if it is too short."""
    before, _, last = session.rpartition("_")
    word = last if len(last) >= MIN_WORD_CHARS else f"{before.rpartition('_')[2]}_{last}"
    return word if before and len(word) >= MIN_WORD_CHARS else session


def plan_one(action: Choosable, target: Target, notes: tuple[str, ...]) -> Plan:
    """Return a plan for one target that an API handles; a target with a `reason` is refused."""
    targets, refused = ((), (target,)) if target.reason else ((target,), ())
    return Plan(action.id, action.title, targets=targets, refused=refused, notes=notes, hosts=(target.host,))


class DiskRead(msgspec.Struct, frozen=True):
    """A file that must be read before an action can be planned."""

    what: str
    read: Callable[[], ActionTarget | str]
    """May block. A text is the reason why there is no target."""


class Choosable(Protocol):
    """Something that an operator can choose. Keys, footer, palette, help and commands are made from it."""

    id: ClassVar[str]
    """Also the name of its command."""
    keys: ClassVar[str]
    """Separated by commas; the footer shows the first. Actions on different kinds of rows may share a key."""
    title: ClassVar[str]
    """Two words at most."""
    help: ClassVar[str]
    """One sentence without a full stop."""
    command: ClassVar[bool] = True
    """`False`: its target can only be chosen on the screen."""
    takes: ClassVar[type[Any] | None] = None
    """The type of row that must be selected; `None`: it needs no row."""
    noun: ClassVar[str] = ""
    """Such a row in a sentence: `put the cursor on a job`."""
    also_takes: ClassVar[type[Any] | None] = None
    """The type of row that becomes its target if one is selected, although it needs none."""
    takes_of_finding: ClassVar[type[Any] | None] = None
    """The type of things that become its target if a finding that it mends names them; other things on their hosts are not touched."""
    max_rows: ClassVar[int | None] = 1
    """The largest number of rows at a time; `None`: no limit."""
    why_not_in_pods: ClassVar[str | None] = None
    """Why it is refused if KubeRay runs this Ray, and what to do instead; `None`: it is allowed there."""
    key_again: ClassVar[str | None] = None
    """What its key does if pressed again in its dialog: confirm, unless live work ends. `None`: nothing."""
    ends_nothing_alive: ClassVar[bool] = False
    """It can't end live work, so a finding that it mends offers it before a look at the cause."""
    starts_job: ClassVar[bool] = False
    """It starts a job, whose log the screen then offers."""

    @property
    def first_key(self) -> str:
        """The key in the footer."""
        return self.keys.split(",")[0]

    def why_not(self, row: Any) -> str | None:
        """Return why it can't be done to this row, in a sentence, or `None`."""
        return None

    def combine_into_target(self, rows: Sequence[Any]) -> ActionTarget | str:
        """Return the target for rows of the type that it takes, or why they can't be one target together."""
        if self.max_rows is not None and len(rows) > self.max_rows:
            most = "one" if self.max_rows == 1 else f"at most {self.max_rows}"
            return f"{self.title}: {most} at a time, but {len(rows)} are tagged"
        return ActionTarget(rows=tuple(rows), id=getattr(rows[0], "id", None))

    def find_disk_read(self, row: Any) -> DiskRead | None:
        """Return the file that must be read before this row can be a target, or `None`."""
        return None


class Runbook(Choosable):
    """Several actions in a row. Each step has its own plan; its dialog asks once for all of them."""


class Action(Choosable, Protocol):
    """An action that only `cockpit.actions.executor` carries out: planned, confirmed, done."""

    nouns: ClassVar[Nouns]
    flags: ClassVar[tuple[Flag, ...]] = ()
    """The flags of its command, beyond those that every action has."""
    operand: ClassVar[Operand] = "hosts"
    id_digits: ClassVar[tuple[int, ...]] = ()
    """The possible lengths of the id in hex, if the operand is `ray_id`."""
    why_word: ClassVar[str] = "Running work will end."
    """Why a word must be typed."""
    is_for_followed: ClassVar[bool] = False
    """It changes the followed Ray: that must be known for the plan, and must still be the same session when the plan is performed."""

    @abstractmethod
    async def plan(self, requested: ActionTarget, context: ActionContext, on_progress: OnProgress) -> Plan:
        """Return the exact changes that it would make now, and what it refuses, with reasons. Changes nothing. Raises `SourceError`."""

    @abstractmethod
    async def perform(self, plan: Plan, context: ActionContext, on_progress: OnProgress) -> Receipt:
        """Carry out the plan on targets whose identity is proven again at this moment. Raises `SourceError`."""

    @abstractmethod
    def impact(self, plan: Plan, snapshot: Snapshot, addresses: Mapping[str, str]) -> Impact:
        """Return which live work ends with a plan that has targets. `addresses` maps hosts to addresses: Ray may know only those."""

    def is_requested(self, refused: Target, plan: Plan) -> bool:
        """Return whether the refused target was requested, so that the command has failed in part."""
        return True
