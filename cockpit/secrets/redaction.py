"""Secrets found in texts, variables and JSON, and taken out of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Final

from cockpit.secrets.contexts import CONTEXTS, URLS
from cockpit.secrets.keys import KEYS
from cockpit.secrets.names import LONGEST_NAME, Secrecy, is_key_variable, is_plain, looks_random, may_tell, secrecy
from cockpit.secrets.rule import BEGINNING, CHINESE, INSIDE, Rule
from cockpit.secrets.tools import TOOLS

HIDDEN: Final = "•••"
_WORDED: Final = tuple(rule for rule in (*TOOLS, *KEYS) if not rule.is_near)
"""Rules of which each hint stands where a word begins."""
_NEAR: Final = tuple(rule for rule in (*TOOLS, *KEYS) if rule.is_near)
LONGEST_LIKELY: Final = 128
"""Characters of a value that are read to see whether it looks random."""
_PRIVATE: Final = "PRIVATE KEY-----"

Span = tuple[int, int]


def redact(text: str) -> str:
    """The same text with `HIDDEN` in place of each secret."""
    return hide(text, spans) if (spans := find_secrets(text)) else text


def hide(text: str, spans: Iterable[Span]) -> str:
    """The text with `HIDDEN` in place of these parts of it, which are in their order."""
    kept: list[str] = []
    last = 0
    for start, end in spans:
        kept += text[last:start], HIDDEN
        last = end
    return "".join((*kept, text[last:]))


def find_secrets(text: str) -> list[Span]:
    """Where in the text each secret begins and ends, in their order; none touches another."""
    lower = text.lower()
    found: list[Span] = []
    begun = frozenset(_beginnings().findall(lower))
    if begun or _has_any(lower, INSIDE) or (not lower.isascii() and _has_any(lower, CHINESE)):
        rules = tuple(_pick_hinted(CONTEXTS, lower))
        names = _find_names(text) if any(rule.after for rule in rules) else []
        for rule in rules:
            found += _behind_names(rule, text, names) if rule.after else _anywhere(rule, text)
    for rule in _pick_hinted(URLS, lower) if "://" in lower else ():
        found += _anywhere(rule, text)
    for rule in (*_pick_worded(begun), *_pick_hinted(_NEAR, lower)) if begun else ():
        found += _anywhere(rule, text)
    return _merge(found) if found else found


def _has_any(lower: str, hints: Iterable[str]) -> bool:
    for hint in hints:  # noqa: SIM110  # any() takes three times as long, and most texts come no further
        if hint in lower:
            return True
    return False


def _pick_hinted(rules: tuple[Rule, ...], lower: str) -> Iterator[Rule]:
    return (rule for rule in rules if _has_any(lower, rule.hints))


@lru_cache(256)
def _pick_worded(begun: frozenset[str]) -> tuple[Rule, ...]:
    """The rules of which a hint stands where a word begins: it is what was found there, or begins it."""
    return tuple(rule for rule in _WORDED if any(word.startswith(rule.hints) for word in begun))


@cache
def _beginnings() -> re.Pattern[str]:
    """What keys, commands and some names begin with, the longest at each place: by first letters, so that few are compared there."""
    by_letter: dict[str, list[str]] = {}
    for hint in sorted({*BEGINNING, *(hint for rule in (*_WORDED, *_NEAR) for hint in rule.hints)}, key=len, reverse=True):
        by_letter.setdefault(re.escape(hint[0]), []).append(re.escape(hint[1:]))
    branches = (f"{letter}(?:{'|'.join(rest)})" for letter, rest in by_letter.items())
    return re.compile(f"(?<![a-z0-9])(?=({'|'.join(branches)}))")


@cache
def compile_once(pattern: str) -> re.Pattern[str]:
    """Made when it is first needed, for which no start has to wait."""
    return re.compile(pattern)


def _find_names(text: str) -> list[re.Match[str]]:
    """Words behind which a secret may follow."""
    words = compile_once(r"[\w.-]+").finditer(text)
    return [word for word in words if word.end() - word.start() <= LONGEST_NAME and may_tell(word[0])]


def _behind_names(rule: Rule, text: str, names: list[re.Match[str]]) -> Iterator[Span]:
    if not names:
        return
    lead, done = compile_once(rule.lead), 0
    for name in names:
        if name.end() < done or (rule.after == "flag" and not name[0].startswith("-")):
            continue
        if (led := lead.match(text, name.end())) and secrecy(name[0]) and (span := _value(rule, text, led.end(), name[0])):
            yield span
            done = span[1]


def _value(rule: Rule, text: str, start: int, name: str) -> Span | None:
    value = compile_once(rule.value)
    if secrecy(name) < Secrecy.CERTAIN:
        begun = value.match(text, start, start + LONGEST_LIKELY)
        if begun is None or not (looks_random(begun[0]) or (secrecy(name) is Secrecy.LIKELY and is_key_variable(name, begun[0]))):
            return None
    match = value.match(text, start)
    return match.span() if match and not is_plain(match[0], name) else None


def _anywhere(rule: Rule, text: str) -> Iterator[Span]:
    if not rule.lead:
        yield from (match.span() for match in compile_once(f"(?<![A-Za-z0-9]){rule.value}").finditer(text))
        return
    lead, value, end = compile_once(rule.lead), compile_once(rule.value), 0
    while led := lead.search(text, end):
        match = value.match(text, led.end())
        end = match.end() if match else led.end()
        if match and not is_plain(match[0]):
            yield match.span()


def _merge(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def redact_variable(name: str, value: str) -> str:
    """The value of an environment variable, fit to be shown: where its name tells of a secret nothing of it, however many lines it has."""
    told = secrecy(name)
    if told >= Secrecy.LIKELY or (told and looks_random(value)):
        return value if not value or is_plain(value, name) else HIDDEN
    return HIDDEN if _PRIVATE in value else redact(value)


def redact_within(value: Any, name: str = "") -> Any:
    """What JSON says, with the secrets inside taken out: what stands under a name, or behind a flag, is that variable's value."""
    if isinstance(value, Mapping):
        beside = value.get("name", value.get("key"))
        named = beside if isinstance(beside, str) else name
        return {key: redact_within(item, named if key == "value" else str(key)) for key, item in value.items()}
    if isinstance(value, list):
        names = (name, *(item if isinstance(item, str) and item.startswith("-") else name for item in value))
        return [redact_within(item, each) for each, item in zip(names, value, strict=False)]
    if isinstance(value, int | float) and not isinstance(value, bool) and secrecy(name) is Secrecy.CERTAIN:
        return value if is_plain(str(value), name) else HIDDEN
    return redact_variable(name, value) if isinstance(value, str) else value
