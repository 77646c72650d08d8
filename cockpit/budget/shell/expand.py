"""What the words of a shell script become: variables with their defaults and changes, sums, and the words that they part into."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cockpit.budget.shell.patterns import changed, parted, quoted
from cockpit.budget.shell.scope import LONGEST, Scope, Value
from cockpit.budget.shell.sums import UNKNOWN
from cockpit.budget.shell.words import Part, Word, heredoc_text, read_word

_PARAMETER = re.compile(r"([!#]?)([A-Za-z_]\w*|\d+|[@*#?$!-])(?:\[([^]]*)\])?(.*)", re.DOTALL | re.ASCII)
_CHANGE = re.compile(
    r"\s*(?:(?P<first>\+\+|--)\s*(?P<one>[A-Za-z_]\w*)|(?P<name>[A-Za-z_]\w*)\s*(?:(?P<twice>\+\+|--)|(?P<sign>[-+*/%]?)=(?!=)(?P<rest>.*)))\s*",
    re.DOTALL | re.ASCII,
)
_CHANGES_SOMETHING = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)")
_IF_ANY = re.compile(r'(\w+\[@\]|@):?\+"\$\{?\1\}?"')
_BRACES = re.compile(r"\{(-?\d{1,6})\.\.(-?\d{1,6})\}|\{([^{}]*,[^{}]*)\}")


def fields(word: Word, scope: Scope) -> list[str]:
    """The words that a word becomes: none, one or many."""
    return [found for alternative in _braces(word) for found in _fields(alternative, scope)]


def text(word: Word, scope: Scope) -> str:
    """What a word becomes where it is not split: in an assignment, in a heredoc."""
    return "".join(part.text if part.kind == "text" else _joined(part, _values(part, scope), scope) for part in word)[:LONGEST]


def pattern(word: Word, scope: Scope) -> str:
    """A word as a pattern: what is quoted in it stands for itself."""
    parts = [(part, part.text if part.kind == "text" else _joined(part, _values(part, scope), scope)) for part in word]
    return "".join(quoted(said) if part.quoted else said for part, said in parts)[:LONGEST]


def _joined(part: Part, values: tuple[str, ...], scope: Scope) -> str:
    sign = scope.parting() if re.match(r"(?:\w+\[\*\]|\*)", part.text) and len(values) > 1 else " "
    return UNKNOWN if sign == UNKNOWN else sign[:1].join(values)


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
    for part in (_whole(each, scope) for each in word):
        values = (part.text,) if part.kind == "text" else _values(part, scope)
        if part.kind != "text" and not part.quoted:
            yield from _split(values, scope.parting())
        elif _is_many(part):
            yield from (each for number, value in enumerate(values) for each in ((None, value) if number else (value,)))
        else:
            yield _joined(part, values, scope)


def _whole(part: Part, scope: Scope) -> Part:
    """`${A[@]+"${A[@]}"}` is `"${A[@]}"`, also where an empty array counts as not set."""
    found = _IF_ANY.fullmatch(part.text) if part.kind == "variable" else None
    return Part("variable", found[1], True) if found and scope.value(re.split(r"\[", found[1])[0]) is not None else part


def _split(values: tuple[str, ...], signs: str) -> Iterator[str | None]:
    if signs == UNKNOWN and any(values):
        yield UNKNOWN
        return
    for number, value in enumerate(values):
        if number:
            yield None
        pieces = parted(value, signs)
        for place, piece in enumerate(pieces):
            yield from (None,) if place else ()
            if piece or (0 < place < len(pieces) - 1) or (len(pieces) > 1 and not place and value[0] not in " \t\n"):
                yield piece


def _is_many(part: Part) -> bool:
    return part.kind == "variable" and (re.fullmatch(r"(?:!?\w+\[@\]|@).*", part.text, re.DOTALL) is not None)


def _braces(word: Word) -> list[Word]:
    """`{1..3}` and `{a,b}`; what is quoted has none."""
    for place, part in enumerate(word):
        found = _BRACES.search(part.text) if part.kind == "text" and not part.quoted else None
        if found:
            items = found[3].split(",") if found[3] is not None else _range(int(found[1]), int(found[2]))
            before, after = part.text[: found.start()], part.text[found.end() :]
            heads = [(*word[:place], *_unquoted(before + item)) for item in items]
            tails = _braces((*_unquoted(after), *word[place + 1 :]))
            return [(*head, *tail) for head in heads for tail in tails][:1000]
    return [word]


def _unquoted(said: str) -> Word:
    return (Part("text", said, False),) if said else ()


def _range(first: int, last: int) -> list[str]:
    step = 1 if last >= first else -1
    return [str(number) for number in range(first, last + step, step)][:1000]


def _values(part: Part, scope: Scope) -> tuple[str, ...]:
    if part.kind == "process":
        return (UNKNOWN,)
    if part.kind == "command":
        return (scope.output(part.text, scope),)
    if part.kind == "sum":
        return (count(text(heredoc_text(part.text), scope), scope),)
    found = parameter(part.text, scope)
    return found if isinstance(found, tuple) else (found,) if isinstance(found, str) else (UNKNOWN,)


def count(expression: str, scope: Scope) -> str:
    """The result of a sum, which may change one variable; after what else might change one, it isn't known."""
    found = _CHANGE.fullmatch(expression)
    if not found or _CHANGES_SOMETHING.search(found["rest"] or ""):
        for name in re.findall(r"[A-Za-z_]\w*", expression) if _CHANGES_SOMETHING.search(expression) else ():
            scope.variables[name] = UNKNOWN
        return scope.reckon(expression)
    name, step = found["name"] or found["one"], found["first"] or found["twice"]
    before = scope.reckon(name)
    after = scope.reckon(f"{name} {step[0]} 1" if step else f"{name} {found['sign']} ({found['rest']})" if found["sign"] else found["rest"])
    scope.assign(name, None, after, more=False)
    return before if found["twice"] else after


def parameter(inside: str, scope: Scope) -> Value:
    """What stands for `${…}`."""
    found = _PARAMETER.fullmatch(inside)
    if not found:
        return UNKNOWN
    sign, name, index, rest = found.groups()
    if sign == "!":
        return _named_by(name, index, rest, scope)
    whole = scope.value(name)
    value = _indexed(whole, name, index, scope)
    if sign == "#" and isinstance(whole, Mapping) and index in {"@", "*"}:
        return str(len(whole))
    if sign == "#":
        return UNKNOWN if value is None or UNKNOWN in value or rest else str(len(value))
    if not rest:
        return value if value is not None else "" if scope.questions and scope.unset(name) else UNKNOWN
    return _changed(name if index is None else f"{name}[{index}]", value, rest, scope)


def _named_by(name: str, index: str | None, rest: str, scope: Scope) -> Value:
    """`${!name}`, and `${!name[@]}`: the keys of an array."""
    value = scope.value(name)
    if index in {"@", "*"} and not rest:
        if isinstance(value, Mapping):
            return tuple(value) if len(value) < 2 else (UNKNOWN,) * len(value)
        return tuple(str(at) for at in range(len(value))) if isinstance(value, tuple) and UNKNOWN not in value else UNKNOWN
    if index is not None or not isinstance(value, str) or not re.fullmatch(r"\w+(?:\[\w+\])?", value):
        return UNKNOWN
    return parameter(value + rest, scope)


def _indexed(value: Value | None, name: str, index: str | None, scope: Scope) -> Value | None:
    if value is None or value == UNKNOWN or (index is None and name in "@*"):
        return value
    if isinstance(value, Mapping):
        return _entry(value, index, scope)
    items = value if isinstance(value, tuple) else (value,)
    if index in {"@", "*"}:
        return items
    if index is None:
        return items[0] if items else ""
    number = scope.reckon(text(heredoc_text(index), scope))
    if UNKNOWN in items or not re.fullmatch(r"-?\d{1,6}", number):
        return UNKNOWN
    return items[int(number)] if -len(items) <= int(number) < len(items) else ""


def _entry(table: Mapping[str, str], index: str | None, scope: Scope) -> Value:
    """One of `declare -A`'s; in which order bash has all of them isn't followed."""
    if index in {"@", "*"}:
        return tuple(table.values()) if len(table) < 2 else (UNKNOWN,) * len(table)
    key = text(_rest(index or "0"), scope)
    return UNKNOWN if UNKNOWN in key else table.get(key, "")


def _changed(name: str, value: Value | None, rest: str, scope: Scope) -> Value:
    sign = re.match(r":?[-=+?]", rest)
    if sign:
        return _default(name, value, sign[0], rest[sign.end() :], scope)
    if isinstance(value, tuple):
        return _sublist(value, rest, first=int(name in "@*"))
    if not isinstance(value, str) or UNKNOWN in value:
        return UNKNOWN
    change = re.match(r"##|#|%%|%|//|/|\^\^?|,,?|:", rest)
    argument = pattern(_rest(rest[change.end() :]), scope) if change else UNKNOWN
    if change is None or UNKNOWN in argument:
        return UNKNOWN
    return changed(change[0], value, argument)


def _sublist(items: tuple[str, ...], rest: str, first: int) -> Value:
    """`${@:2}` and `${A[@]:1:3}`; arguments are counted from 1."""
    found = re.fullmatch(r": *(\d{1,6})(?::(\d{1,6}))?", rest)
    if not found or UNKNOWN in items or int(found[1]) < first:
        return UNKNOWN
    start = int(found[1]) - first
    return items[start : start + int(found[2])] if found[2] else items[start:]


def _default(name: str, value: Value | None, sign: str, rest: str, scope: Scope) -> Value:
    unset = _is_unset(name, value, scope) if value is None or value == UNKNOWN or ":" not in sign else not value
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


def _is_unset(name: str, value: Value | None, scope: Scope) -> bool | None:
    own = re.match(r"\w*", name)
    if value is None or value == UNKNOWN or own is None or own[0] == name:
        return scope.unset(own[0] if own and own[0] else name)
    return not value


def _rest(inside: str) -> Word:
    word, _ = read_word(inside, 0, frozenset())
    return word
