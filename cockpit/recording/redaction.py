"""A row without any secret, packed: what a cluster's people write anywhere is looked at before it reaches a disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import msgspec

from cockpit.model import Job
from cockpit.secrets import redact, redact_within

LONGEST_REMEMBERED = 1000
"""Characters of a text of which it is remembered that it has no secret: commands of a thousand workers are few different ones."""
_encode = msgspec.msgpack.Encoder().encode
_redact_short = lru_cache(4096)(redact)


def pack_row(row: Any) -> msgspec.Raw:
    """The row in msgpack, the secrets in its texts taken out."""
    if isinstance(row, Job) and row.metadata:
        row = msgspec.structs.replace(row, metadata=redact_within(dict(row.metadata)))
    return msgspec.Raw(_encode(redact_texts(row)))


def redact_texts(value: Any) -> Any:
    """What it says, as maps and lists, with every text in it redacted; fields that say nothing are left out."""
    if isinstance(value, str):
        return _redact_short(value) if len(value) <= LONGEST_REMEMBERED else redact(value)
    if isinstance(value, Mapping):
        return {key: redact_texts(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [redact_texts(item) for item in value]
    if isinstance(value, msgspec.Struct):
        return {name: redact_texts(item) for name, field, usual in _fields(type(value)) if (item := getattr(value, field)) != usual}
    return value


@cache
def _fields(of: type[msgspec.Struct]) -> tuple[tuple[str, str, Any], ...]:
    """By what name it is written, how it is called, and what it is when nothing is said of it."""
    return tuple((field.encode_name, field.name, _usual(field)) for field in msgspec.structs.fields(of))


def _usual(field: msgspec.structs.FieldInfo) -> Any:
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
