"""What one release of veRL would make of a command's configuration: its value of a key, and which keys nobody can know."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from cockpit.budget.frameworks.hydra import Gap, Overrides, Value
from cockpit.budget.frameworks.verl.releases import default, release

MAX_DEPTH = 8
MAX_COUNT = 100_000
"""More than any cluster has of anything: a count beyond it is a slip, and no list is made of it."""
_OTHER_KEY = re.compile(r"\$\{([A-Za-z_][\w.]*)\}")


class ReleaseConfig(msgspec.Struct):
    """The configuration as one release composes it."""

    overrides: Overrides
    place: int
    megatron: bool = False
    shipped: bool = True
    """It starts from the release's own files; if not, what the command doesn't set can't be known."""
    own: Mapping[str, Value] = {}
    """What a recipe's configuration sets on top."""
    unread: dict[str, str] = msgspec.field(default_factory=dict)
    """Sentences on the keys that were asked for in vain."""

    def since(self, name: str) -> bool:
        """Whether it is this release or a later one."""
        return self.place >= release(name)

    def value(self, key: str, depth: int = 0) -> Value | Gap:
        """What the release would find; `Gap.ABSENT` where there is no such key."""
        value = self.overrides.value(key)
        if value is Gap.ABSENT:
            value = self.own[key] if key in self.own else default(key, self.place, self.megatron)
            value = value if self.shipped or key in self.own else Gap.UNKNOWN
        return self._resolve(value, depth) if isinstance(value, str) and "${" in value else value

    def _resolve(self, text: str, depth: int) -> Value | Gap:
        """The value of `${other.key}`; what OmegaConf's own functions give, as `${oc.env:X}`, isn't known."""
        match = _OTHER_KEY.fullmatch(text)
        return self.value(match[1], depth + 1) if match and depth <= MAX_DEPTH else Gap.UNKNOWN

    def whole(self, key: str) -> int | None:
        """A count; `None`, and a sentence, where it isn't one or can't be known."""
        value, number = self.value(key), self.number(key)
        if number is None:
            self.unread[key] = f"{key} {value.value if isinstance(value, Gap) else f'is {value!r}, not a number'}"
        return number

    def number(self, key: str) -> int | None:
        """A count, as a rule needs it: without a sentence where there is none."""
        value = self.value(key)
        return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_COUNT else None

    def flag(self, key: str) -> bool | None:
        """Whether it is on; `None`, and a sentence, where that can't be known."""
        value = self.value(key)
        if value is Gap.UNKNOWN:
            self.unread[key] = f"{key} {value.value}"
            return None
        return not isinstance(value, Gap) and bool(value)
