"""A row without any secret, packed: what a cluster's people write anywhere is looked at before it reaches a disk."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from cockpit.model import Job
from cockpit.secrets import redact, redact_within

LONGEST_REMEMBERED = 1000
"""Characters of a text of which it is remembered that it has no secret: commands of a thousand workers are few different ones."""
_encode = msgspec.msgpack.Encoder().encode


def pack_row(row: Any) -> msgspec.Raw:
    """The row in msgpack, the secrets in its texts taken out."""
    if isinstance(row, Job) and row.metadata:
        row = msgspec.structs.replace(row, metadata=redact_within(dict(row.metadata)))
    return msgspec.Raw(_encode(redact_texts(msgspec.to_builtins(row))))


def redact_texts(value: Any) -> Any:
    """The same value with every text in it redacted."""
    if isinstance(value, str):
        return _redact_short(value) if len(value) <= LONGEST_REMEMBERED else redact(value)
    if isinstance(value, dict):
        return {key: redact_texts(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact_texts(item) for item in value]
    return value


@lru_cache(4096)
def _redact_short(text: str) -> str:
    return redact(text)
