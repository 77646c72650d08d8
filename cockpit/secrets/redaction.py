"""Finds and hides secrets in texts, variables and JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Final

from cockpit.secrets.contexts import CONTEXTS, URLS
from cockpit.secrets.keys import KEYS
from cockpit.secrets.names import MAX_NAME_CHARS, Secrecy, can_be_secret, is_key_variable, is_plain, looks_random, secrecy
from cockpit.secrets.rule import BEGINNING, CHINESE, INSIDE, Rule
from cockpit.secrets.tools import TOOLS

HIDDEN: Final = "•••"
_WORDED: Final = tuple(rule for rule in (*TOOLS, *KEYS) if not rule.is_near)
"""Rules whose hints are at the beginning of a word."""
_NEAR: Final = tuple(rule for rule in (*TOOLS, *KEYS) if rule.is_near)
MAX_LIKELY_CHARS: Final = 128
"""The beginning of a value that decides whether it looks random."""
_PRIVATE: Final = "PRIVATE KEY-----"

Span = tuple[int, int]
"""Begin and end of a part of a text."""


def redact(text: str) -> str:
    """Return the text with `HIDDEN` in place of each secret."""
    return hide(text, spans) if (spans := find_secrets(text)) else text


def hide(text: str, spans: Iterable[Span]) -> str:
    """Return the text with `HIDDEN` in place of these parts, which must be in order."""
    kept: list[str] = []
    last = 0
    for start, end in spans:
        kept += text[last:start], HIDDEN
        last = end
    return "".join((*kept, text[last:]))


def find_secrets(text: str) -> list[Span]:
    """Return the begin and end of each secret in the text, in order; they neither overlap nor touch."""
    lower = text.lower()
    found: list[Span] = []
    words = frozenset(_beginnings().findall(lower))
    if words or _has_any(lower, INSIDE) or (not lower.isascii() and _has_any(lower, CHINESE)):
        rules = tuple(_pick_hinted(CONTEXTS, lower))
        names = _find_names(text) if any(rule.after for rule in rules) else []
        for rule in rules:
            found += _behind_names(rule, text, names) if rule.after else _anywhere(rule, text)
    for rule in _pick_hinted(URLS, lower) if "://" in lower else ():
        found += _anywhere(rule, text)
    for rule in (*_pick_worded(words), *_pick_hinted(_NEAR, lower)) if words else ():
        found += _anywhere(rule, text)

    # Join spans that overlap or touch.
    merged: list[Span] = []
    for start, end in sorted(found):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _has_any(lower: str, hints: Iterable[str]) -> bool:
    for hint in hints:  # noqa: SIM110  # any() takes three times as long, and for most texts this is all that runs
        if hint in lower:
            return True
    return False


def _pick_hinted(rules: tuple[Rule, ...], lower: str) -> Iterator[Rule]:
    return (rule for rule in rules if _has_any(lower, rule.hints))


@lru_cache(256)
def _pick_worded(words: frozenset[str]) -> tuple[Rule, ...]:
    """Return the rules with a hint at the beginning of one of these words."""
    return tuple(rule for rule in _WORDED if any(word.startswith(rule.hints) for word in words))


@cache
def _beginnings() -> re.Pattern[str]:
    """Return a pattern that finds the longest hint at the beginning of a word. Hints are grouped by first letters, which is faster."""
    by_letter: dict[str, list[str]] = {}
    for hint in sorted({*BEGINNING, *(hint for rule in (*_WORDED, *_NEAR) for hint in rule.hints)}, key=len, reverse=True):
        by_letter.setdefault(re.escape(hint[0]), []).append(re.escape(hint[1:]))
    branches = (f"{letter}(?:{'|'.join(rest)})" for letter, rest in by_letter.items())
    return re.compile(f"(?<![a-z0-9])(?=({'|'.join(branches)}))")


def _find_names(text: str) -> list[re.Match[str]]:
    """Return the words that may be followed by a secret."""
    words = re.compile(r"[\w.-]+").finditer(text)
    return [word for word in words if word.end() - word.start() <= MAX_NAME_CHARS and can_be_secret(word[0])]


def _behind_names(rule: Rule, text: str, names: list[re.Match[str]]) -> Iterator[Span]:
    """Yield the secrets that follow one of the names."""
    lead, done = re.compile(rule.lead), 0
    for name in names:
        if name.end() < done or (rule.after == "flag" and not name[0].startswith("-")):
            continue
        before = lead.match(text, name.end())
        if before is None or not (level := secrecy(name[0])):
            continue
        value, start = re.compile(rule.value), before.end()
        if level < Secrecy.CERTAIN:
            # The value must look random too. Its beginning is enough to decide that.
            head = value.match(text, start, start + MAX_LIKELY_CHARS)
            if head is None or not (looks_random(head[0]) or (level is Secrecy.LIKELY and is_key_variable(name[0], head[0]))):
                continue
        match = value.match(text, start)
        if match is not None and not is_plain(match[0], name[0]):
            yield match.span()
            done = match.end()


def _anywhere(rule: Rule, text: str) -> Iterator[Span]:
    """Yield the secrets that the rule finds at any place."""
    if not rule.lead:
        yield from (match.span() for match in re.compile(f"(?<![A-Za-z0-9]){rule.value}").finditer(text))
        return
    lead, value, end = re.compile(rule.lead), re.compile(rule.value), 0
    while before := lead.search(text, end):
        match = value.match(text, before.end())
        end = match.end() if match else before.end()
        if match and not is_plain(match[0]):
            yield match.span()


def redact_variable(name: str, value: str) -> str:
    """Return the value of an environment variable without secrets. If its name means a secret, the whole value is hidden."""
    level = secrecy(name)
    if level >= Secrecy.LIKELY or (level and looks_random(value)):
        return value if not value or is_plain(value, name) else HIDDEN
    return HIDDEN if _PRIVATE in value else redact(value)


def redact_within(value: Any, name: str = "") -> Any:
    """Return a JSON value without secrets. A value under a key, or after a flag in a list, is redacted like that variable's value."""
    if isinstance(value, Mapping):
        # In {"name": "HF_TOKEN", "value": …} the name is a field of its own.
        sibling = value.get("name", value.get("key"))
        name_of_value = sibling if isinstance(sibling, str) else name
        return {key: redact_within(item, name_of_value if key == "value" else str(key)) for key, item in value.items()}
    if isinstance(value, list):
        names = (name, *(item if isinstance(item, str) and item.startswith("-") else name for item in value))
        return [redact_within(item, each) for each, item in zip(names, value, strict=False)]
    if isinstance(value, int | float) and not isinstance(value, bool) and secrecy(name) is Secrecy.CERTAIN:
        return value if is_plain(str(value), name) else HIDDEN
    return redact_variable(name, value) if isinstance(value, str) else value
