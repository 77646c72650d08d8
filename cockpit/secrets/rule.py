"""Defines a rule for secrets, and the parts of patterns that many rules share.

Every repetition is bounded, or can't match the beginning of the next part: so the time for a hostile line is linear in its length.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Q: Final = r"""\\{0,7}["'`]?"""
"""An optional quote, also one that is escaped, as in JSON within a string."""
_NEXT: Final = r"""(?=[\s'"`]|$|[\w.%-]{1,60}[=:])"""
VALUE: Final = (
    r"""(?:(?<=[^\\]")(?!")[^"\\\n]*(?:\\.[^"\\\n]*)*|(?<=\\")(?:[^"\\\n]+|\\(?!\\{0,7}"))+|(?<=')[^'\n]+(?:'\\''[^'\n]*)*|(?<=`)[^`\n]+|"""
    r"""(?:[^\s'"`\\&,;}，。；、]+|&(?!&|\s|$|[\w.%-]{1,60}=)|"""
    rf"""[,;](?!{_NEXT})|\}}(?!$|[\s'"`\\,;}}\])])|\\(?![nrt]|\\{{0,7}}["'`]))+)"""
)
"""A text in quotes; without quotes it ends before a space, a quote, a closing bracket, or the next `name=`."""
_PROSE: Final = r"(?<![a-z] pass)(?<![a-z] token)(?<![^\w.-]key)"
"""No match after the last word of a sentence (`Forward pass: 3 ms`), nor after the `key` of an entry in a list."""
IS: Final = (
    rf"""(?:{Q}(?:\]?[ \t]{{1,8}}=[ \t]{{1,8}}|\]?=[ \t]{{1,8}}(?=["'])|(?:\]?(?<![!<>])=|：|＝)(?![=~\s])|"""
    r"""[ \t]{0,8}(?::=|=>)[ \t]{0,8}|:(?=[\w+/.=-]{12})|[ \t]-[ \t](?=["']))|"""
    rf"""{_PROSE}{Q}(?:[ \t]?:[ \t]{{1,8}}|:(?=\\{{0,7}}["'`]\S)))"""
)
"""The signs between a name and its value."""
BREAK: Final = r"(?:\r?\n|\\{1,7}n)"
"""The end of a line, also escaped as in JSON."""
SPACES: Final = r"(?:[\s,;]|\\{1,7}n){1,80}"
"""The signs between two fields."""
WORD: Final = r"""(?:[^\s'"`\\]|\\(?!\\{0,7}["'`]))+"""
"""A text up to the next space or quote."""
GAP: Final = r"""(?:=|[ \t]{1,4}|\\{0,7}["'],[ \t]?)\\{0,7}["'`]?"""
"""The signs between a flag and its value, on a command line and in a list of arguments."""
REST: Final = r"""\b[^\n|;&]{0,200}?[\s'"]"""
"""Other words of the same command."""
RANDOM: Final = r"(?=[A-Za-z_+/-]{0,60}\d[A-Za-z_+/-]{0,60}\d|(?:[A-Za-z]{0,20}?[a-z][A-Z]){3})[\w+/=.~-]{16,}"
"""A text that looks like a key, for places where any word may follow."""

INSIDE: Final = ("token", "secret", "pass", "key", "cred", "auth", "pw", "_sk", "_ak", "q~", ":aa")
"""Hints that also occur in the middle of words."""
CHINESE: Final = ("密", "口令", "令牌", "金鑰", "凭", "授权码", "提取码", "验证码")
BEGINNING: Final = (
    "cookie", "bearer", "basic", "otp", "sessionid", "jsessionid", "phpsessid", "sk:", "sk=", "sk\"", "sk'", "ak:", "ak=", "pat=", "sig=",
    "sign=", "sign:", "sign ", "sign\"", "sign'", "hook", "webhook", "robot", "bot=", "bot:", "bot ", "bot_", "bot\"", "bot'", "alert_ur",
    "notify_ur",
)  # fmt: skip
"""Hints at the beginning of words or of their parts."""
NAMES: Final = (*INSIDE, *BEGINNING, *CHINESE)
"""Every name of a secret contains one of them."""


class Rule(msgspec.Struct, frozen=True):
    """A pattern of secrets: the secret is the `value` that follows the `lead`. Without a lead it must begin at the beginning of a word."""

    name: str
    """The key of its examples in `tests/secrets/examples.py`."""
    hints: tuple[str, ...]
    """In lower case. The rule is skipped for a text without any of them."""
    lead: str = ""
    value: str = VALUE
    is_near: bool = False
    """The hint may be anywhere near the secret, also at the end of a longer word, as in `\\ncurl` or `sendDingTalk`. Other hints must be at
    the beginning of a word."""
    after: Literal["", "name", "flag"] = ""
    """The lead must follow a name or a flag that may be a secret's by `secrecy`."""
