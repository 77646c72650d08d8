"""What a rule is, and the pieces that many rules are made of.

Every repetition is bounded, or runs over what the next thing can't begin with: a hostile line costs a time linear in its length.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Q: Final = r"""\\{0,7}["'`]?"""
"""A quote that may be there, also as it stands in JSON that was written into a string."""
_NEXT: Final = r"""(?=[\s'"`]|$|[\w.%-]{1,60}[=:])"""
VALUE: Final = (
    r"""(?:(?<=[^\\]")(?!")[^"\\\n]*(?:\\.[^"\\\n]*)*|(?<=\\")(?:[^"\\\n]+|\\(?!\\{0,7}"))+|(?<=')[^'\n]+(?:'\\''[^'\n]*)*|(?<=`)[^`\n]+|"""
    r"""(?:[^\s'"`\\&,;}，。；、]+|&(?!&|\s|$|[\w.%-]{1,60}=)|"""
    rf"""[,;](?!{_NEXT})|\}}(?!$|[\s'"`\\,;}}\])])|\\(?![nrt]|\\{{0,7}}["'`]))+)"""
)
"""What stands in quotes; else what goes on to the next space, quote, closing bracket, or `name=` of what comes next."""
_PROSE: Final = r"(?<![a-z] pass)(?<![a-z] token)(?<![^\w.-]key)"
"""The last word of a sentence (`Forward pass: 3 ms`) is no name, nor is the `key` of an entry in a list."""
IS: Final = (
    rf"""(?:{Q}(?:\]?[ \t]{{1,8}}=[ \t]{{1,8}}|\]?=[ \t]{{1,8}}(?=["'])|(?:\]?(?<![!<>])=|：|＝)(?![=~\s])|"""
    r"""[ \t]{0,8}(?::=|=>)[ \t]{0,8}|:(?=[\w+/.=-]{12})|[ \t]-[ \t](?=["']))|"""
    rf"""{_PROSE}{Q}(?:[ \t]?:[ \t]{{1,8}}|:(?=\\{{0,7}}["'`]\S)))"""
)
"""Between a name and its value."""
BREAK: Final = r"(?:\r?\n|\\{1,7}n)"
"""The end of a line, also as it stands in JSON."""
SPACES: Final = r"(?:[\s,;]|\\{1,7}n){1,80}"
"""Between two fields."""
WORD: Final = r"""(?:[^\s'"`\\]|\\(?!\\{0,7}["'`]))+"""
"""What goes on to the next space or quote."""
GAP: Final = r"""(?:=|[ \t]{1,4}|\\{0,7}["'],[ \t]?)\\{0,7}["'`]?"""
"""Between a flag and its value, on a command line and in a list of arguments."""
REST: Final = r"""\b[^\n|;&]{0,200}?[\s'"]"""
"""Other words of the same command."""
RANDOM: Final = r"(?=[A-Za-z_+/-]{0,60}\d[A-Za-z_+/-]{0,60}\d|(?:[A-Za-z]{0,20}?[a-z][A-Z]){3})[\w+/=.~-]{16,}"
"""What looks like a key where any word may stand."""

INSIDE: Final = ("token", "secret", "pass", "key", "cred", "auth", "pw", "_sk", "_ak", "q~", ":aa")
"""Hints that stand in the middle of words too."""
CHINESE: Final = ("密", "口令", "令牌", "金鑰", "凭", "授权码", "提取码", "验证码")
BEGINNING: Final = (
    "cookie", "bearer", "basic", "otp", "sessionid", "jsessionid", "phpsessid", "sk:", "sk=", "sk\"", "sk'", "ak:", "ak=", "pat=", "sig=",
    "sign=", "sign:", "sign ", "sign\"", "sign'", "hook", "webhook", "robot", "bot=", "bot:", "bot ", "bot_", "bot\"", "bot'", "alert_ur",
    "notify_ur",
)  # fmt: skip
"""Hints that words, or their parts, begin with."""
NAMES: Final = (*INSIDE, *BEGINNING, *CHINESE)
"""No name of a secret is without one of them."""


class Rule(msgspec.Struct, frozen=True):
    """One way in which a secret is written down: its `value`, which follows its `lead`. Without a lead it begins where no word goes on."""

    name: str
    """By it `tests/secrets_examples.py` has its examples."""
    hints: tuple[str, ...]
    """Lower case; a text without any of them costs nothing more."""
    lead: str = ""
    value: str = VALUE
    is_near: bool = False
    """Its hints stand near the secret, and may end a longer word, as in `\\ncurl` or `sendDingTalk`; others begin where a word begins."""
    after: Literal["", "name", "flag"] = ""
    """The lead stands right behind a name, or a flag, of which `secrecy` knows what it says."""
