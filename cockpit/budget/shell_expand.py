"""What the words of a shell script become: its variables, with their defaults and patterns, and its sums."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from cockpit.budget.shell_sums import UNKNOWN, reckon
from cockpit.budget.shell_words import Part, Word, heredoc_text, read_word

LONGEST = 200_000
Value = str | tuple[str, ...]

_PARAMETER = re.compile(r"([!#]?)([A-Za-z_]\w*|\d+|[@*#?$!-])(?:\[([^]]*)\])?(.*)", re.DOTALL | re.ASCII)
_SET_ELSEWHERE = re.compile(
    r"(?:SLURM|PBS|LSB|OMPI|ARNOLD|MLP|PET|VC|RAY|KUBERNETES)_\w+|(?:LOCAL_|NODE_)?(?:RANK|WORLD_SIZE)|MASTER_(?:ADDR|PORT)|"
    r"(?:CUDA|NVIDIA)_VISIBLE_DEVICES|HOME|PWD|OLDPWD|USER|HOSTNAME|PATH|SHELL|RANDOM|SECONDS|BASH_\w+|LD_LIBRARY_PATH|PYTHONPATH"
)
"""Set by a scheduler, an image or the shell itself: that a script doesn't set them doesn't say that they are not set."""
_CHANGE = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:(\+\+|--)|([-+*/%]?)=(?!=)(.*))\s*", re.DOTALL | re.ASCII)
_BRACES = re.compile(r"\{(-?\d{1,6})\.\.(-?\d{1,6})\}|\{([^{}]*,[^{}]*)\}")


@dataclass
class Scope:
    """All that a script's words may speak of."""

    variables: dict[str, Value] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    arguments: tuple[str, ...] = ()
    """`$1` and on."""
    name: str = UNKNOWN
    """`$0`."""
    output: Callable[[str, Scope], str] = lambda *_: UNKNOWN
    """What a command substitution prints."""
    assumed: dict[str, None] = field(default_factory=dict)
    """Variables that nothing here sets, and that were taken as not set."""
    all_told: bool = True
    """Nothing that can't be read may have set a variable."""
    questions: int = 0
    """Within a condition: there, what nothing sets is empty."""

    @contextmanager
    def asking(self) -> Iterator[None]:
        """While a condition is read."""
        self.questions += 1
        yield
        self.questions -= 1

    @contextmanager
    def kept(self, names: Collection[str]) -> Iterator[None]:
        """What is set for one command alone is as before after it."""
        before = {name: self.variables.get(name) for name in names}
        exported = self.exported & before.keys()
        try:
            yield
        finally:
            self.restore(before)
            self.exported = (self.exported - before.keys()) | exported

    def restore(self, before: Mapping[str, Value | None]) -> None:
        """Gives variables the values that they had; `None`: they were not set."""
        for name, value in before.items():
            self.variables.pop(name, None)
            if value is not None:
                self.variables[name] = value

    def copy(self) -> Scope:
        """A scope whose changes this one doesn't see."""
        return replace(self, variables=dict(self.variables), exported=set(self.exported))

    def merge(self, others: Sequence[Scope]) -> None:
        """After branches of which nobody knows which ran: where they differ, nothing is known."""
        names = {name for each in others for name in each.variables}
        self.variables = {name: _common([each.variables.get(name) for each in others]) for name in names}
        self.exported = set().union(*(each.exported for each in others))
        self.all_told = all(each.all_told for each in others)
        arguments = others[0].arguments
        self.arguments = arguments if all(each.arguments == arguments for each in others) else (UNKNOWN,)

    def assign(self, name: str, index: str | None, value: Value, *, more: bool) -> None:
        """Sets a variable, or one of an array's, or adds to either."""
        old = self.variables.get(name, UNKNOWN if _SET_ELSEWHERE.fullmatch(name) else "")
        if index is not None:
            self.variables[name] = UNKNOWN if isinstance(value, tuple) else _placed(old, index, value, self)
        elif not more:
            self.variables[name] = value
        elif isinstance(value, tuple) or isinstance(old, tuple):
            self.variables[name] = (*_as_list(old), *_as_list(value))
        else:
            self.variables[name] = (old + value)[:LONGEST]

    def value(self, name: str) -> Value | None:
        """`None`: nothing here sets it."""
        if name in "@*":
            return self.arguments
        if name.isdigit() and name != "0":
            return self._argument(int(name))
        known = {"0": self.name, "#": UNKNOWN if UNKNOWN in self.arguments else str(len(self.arguments))}
        return known.get(name, UNKNOWN) if not name.isidentifier() else self.variables.get(name)

    def _argument(self, number: int) -> str:
        if UNKNOWN in self.arguments[:number]:
            return UNKNOWN
        return self.arguments[number - 1] if number <= len(self.arguments) else ""

    def unset(self, name: str) -> bool | None:
        """Whether a variable is not set, as far as anybody can know; what is taken for granted is noted."""
        value = self.value(name)
        if value is None and self.all_told and not _SET_ELSEWHERE.fullmatch(name):
            self.assumed[name] = None
            return True
        return None if value is None or value == UNKNOWN else False


def _common(values: Sequence[Value | None]) -> Value:
    first = values[0]
    return first if first is not None and all(value == first for value in values) else UNKNOWN


def _as_list(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (value,) if value else ()


def _placed(old: Value, index: str, value: str, scope: Scope) -> Value:
    number = reckon(index, lambda name: one_value(name, scope))
    items = list(_as_list(old))
    if UNKNOWN in items or not number.isdigit() or int(number) > len(items):
        return UNKNOWN
    items[int(number) :] = [value, *items[int(number) + 1 :]]
    return tuple(items)


def fields(word: Word, scope: Scope) -> list[str]:
    """The words that a word becomes: none, one or many."""
    return [found for alternative in _braces(word) for found in _fields(alternative, scope)]


def text(word: Word, scope: Scope) -> str:
    """What a word becomes where it is not split: in an assignment, in a heredoc."""
    return "".join(part.text if part.kind == "text" else " ".join(_values(part, scope)) for part in word)[:LONGEST]


def _fields(word: Word, scope: Scope) -> Iterator[str]:
    found: str | None = None
    for piece in _pieces(word, scope):
        if piece is not None:
            found = (found or "") + piece
        elif found is not None:
            yield found
            found = None
    if found is not None:
        yield found


def _pieces(word: Word, scope: Scope) -> Iterator[str | None]:
    """Texts that stick together; `None` parts words."""
    for part in word:
        values = (part.text,) if part.kind == "text" else _values(part, scope)
        if part.kind != "text" and not part.quoted:
            values = tuple(piece for value in values for piece in (*re.split(r"[ \t\n]+", value), ""))[:-1]
            yield from (each for number, piece in enumerate(values) for each in ((None,) if number else ()) + ((piece,) if piece else ()))
        elif _is_many(part):
            yield from (each for number, value in enumerate(values) for each in ((None, value) if number else (value,)))
        else:
            yield " ".join(values)


def _is_many(part: Part) -> bool:
    return part.kind == "variable" and (re.fullmatch(r"(?:\w+\[@\]|@).*", part.text, re.DOTALL) is not None)


def _braces(word: Word) -> list[Word]:
    """`{1..3}` and `{a,b}`; what is quoted has none."""
    for place, part in enumerate(word):
        found = _BRACES.search(part.text) if part.kind == "text" and not part.quoted else None
        if found:
            items = found[3].split(",") if found[3] is not None else _range(int(found[1]), int(found[2]))
            before, after = part.text[: found.start()], part.text[found.end() :]
            heads = [(*word[:place], Part("text", before + item, False)) for item in items]
            tails = _braces((Part("text", after, False), *word[place + 1 :]))
            return [(*head, *tail) for head in heads for tail in tails][:1000]
    return [word]


def _range(first: int, last: int) -> list[str]:
    step = 1 if last >= first else -1
    return [str(number) for number in range(first, last + step, step)][:1000]


def _values(part: Part, scope: Scope) -> tuple[str, ...]:
    if part.kind == "command":
        return (scope.output(part.text, scope),)
    if part.kind == "sum":
        return (count(text(heredoc_text(part.text), scope), scope),)
    found = parameter(part.text, scope)
    return found if isinstance(found, tuple) else (found,)


def count(expression: str, scope: Scope) -> str:
    """The result of a sum, which may change one variable; after what else might change one, it isn't known."""
    change = _CHANGE.fullmatch(expression)
    if not change:
        for name in re.findall(r"[A-Za-z_]\w*", expression) if re.search(r"\+\+|--|(?<![=!<>])=(?!=)", expression) else ():
            scope.variables[name] = UNKNOWN
        return reckon(expression, lambda name: one_value(name, scope))
    name, twice, sign, rest = change.groups()
    before = reckon(name, lambda name: one_value(name, scope))
    formula = f"{name} {twice[0]} 1" if twice else f"{name} {sign} ({rest})" if sign else rest
    after = reckon(formula, lambda name: one_value(name, scope))
    scope.assign(name, None, after, more=False)
    return before if twice else after


def one_value(name: str, scope: Scope) -> str:
    """A variable's value, for a sum or a test."""
    value = scope.value(name)
    return (value[0] if value else "") if isinstance(value, tuple) else UNKNOWN if value is None else value


def parameter(inside: str, scope: Scope) -> Value:
    """What stands for `${…}`."""
    found = _PARAMETER.fullmatch(inside)
    if not found:
        return UNKNOWN
    sign, name, index, rest = found.groups()
    if sign == "!":
        return UNKNOWN
    value = _indexed(scope.value(name), name, index, scope)
    if sign == "#":
        return UNKNOWN if value is None or UNKNOWN in value or rest else str(len(value))
    if not rest:
        return value if value is not None else "" if scope.questions and scope.unset(name) else UNKNOWN
    return _changed(name, value, rest, scope)


def _indexed(value: Value | None, name: str, index: str | None, scope: Scope) -> Value | None:
    if value is None or value == UNKNOWN or (index is None and name in "@*"):
        return value
    items = value if isinstance(value, tuple) else (value,)
    if index in {"@", "*"}:
        return items
    if index is None:
        return items[0] if items else ""
    number = reckon(text(heredoc_text(index), scope), lambda name: one_value(name, scope))
    if UNKNOWN in items or not re.fullmatch(r"-?\d{1,6}", number):
        return UNKNOWN
    return items[int(number)] if -len(items) <= int(number) < len(items) else ""


def _changed(name: str, value: Value | None, rest: str, scope: Scope) -> Value:
    sign = re.match(r":?[-=+?]", rest)
    if sign:
        return _default(name, value, sign[0], rest[sign.end() :], scope)
    if isinstance(value, tuple):
        return _sublist(value, rest, first=int(name in "@*"))
    if value is None or UNKNOWN in value:
        return UNKNOWN
    change = re.match(r"##|#|%%|%|//|/|\^\^|,,|:", rest)
    argument = text(_rest(rest[change.end() :]), scope) if change else UNKNOWN
    if change is None or UNKNOWN in argument:
        return UNKNOWN
    return _CHANGES[change[0]](value, argument)


def _sublist(items: tuple[str, ...], rest: str, first: int) -> Value:
    """`${@:2}` and `${A[@]:1:3}`; arguments are counted from 1."""
    found = re.fullmatch(r": *(\d{1,6})(?::(\d{1,6}))?", rest)
    if not found or UNKNOWN in items or int(found[1]) < first:
        return UNKNOWN
    start = int(found[1]) - first
    return items[start : start + int(found[2])] if found[2] else items[start:]


def _default(name: str, value: Value | None, sign: str, rest: str, scope: Scope) -> Value:
    unset = scope.unset(name) if value is None or value == UNKNOWN else (not value if ":" in sign else False)
    if unset is None or (isinstance(value, str) and value != UNKNOWN and UNKNOWN in value and not value.strip(UNKNOWN)):
        return UNKNOWN
    if "+" in sign:
        return "" if unset else text(_rest(rest), scope)
    if not unset:
        return UNKNOWN if value is None else value
    if "?" in sign:
        return UNKNOWN
    given = text(_rest(rest), scope)
    if "=" in sign:
        scope.assign(name, None, given, more=False)
    return given


def _rest(inside: str) -> Word:
    word, _ = read_word(inside, 0, frozenset())
    return word


def _shortest(value: str, pattern: str, ends: range, *, front: bool) -> str:
    for end in ends:
        head, tail = value[:end], value[end:]
        if fnmatch.fnmatchcase(head if front else tail, pattern):
            return tail if front else head
    return value


def _replaced(value: str, argument: str, count: int) -> str:
    old, _, new = argument.partition("/")
    return UNKNOWN if re.search(r"[*?\[#%\\]", old) or not old else value.replace(old, new, count)


def _slice(value: str, argument: str) -> str:
    found = re.fullmatch(r" *(\d{1,6}|(?<= )-\d{1,6})(?::(\d{1,6}))?", argument)
    if not found:
        return UNKNOWN
    start = int(found[1])
    return value[start:][: int(found[2])] if found[2] else value[start:]


_CHANGES: dict[str, Callable[[str, str], str]] = {
    "#": lambda value, pattern: _shortest(value, pattern, range(len(value) + 1), front=True),
    "##": lambda value, pattern: _shortest(value, pattern, range(len(value), -1, -1), front=True),
    "%": lambda value, pattern: _shortest(value, pattern, range(len(value), -1, -1), front=False),
    "%%": lambda value, pattern: _shortest(value, pattern, range(len(value) + 1), front=False),
    "/": lambda value, argument: _replaced(value, argument, 1),
    "//": lambda value, argument: _replaced(value, argument, -1),
    "^^": lambda value, argument: UNKNOWN if argument else value.upper(),
    ",,": lambda value, argument: UNKNOWN if argument else value.lower(),
    ":": _slice,
}
