"""Packs rows without secrets: every text of a cluster is searched for secrets before it reaches the disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import msgspec

from cockpit.model import Job
from cockpit.secrets import redact, redact_within

LONGEST_REMEMBERED = 1000
"""Longest text whose redacted form is cached, in characters: a thousand workers have few different commands."""
_encode = msgspec.msgpack.Encoder().encode
_redact_short = lru_cache(4096)(redact)


def pack_row(row: Any) -> msgspec.Raw:
    """The row in msgpack, with the secrets in its texts redacted."""
    if isinstance(row, Job) and row.metadata:
        row = msgspec.structs.replace(row, metadata=redact_within(dict(row.metadata)))
    return msgspec.Raw(_encode(redact_texts(row)))


def redact_texts(value: Any) -> Any:
    """The value as maps and lists, with all texts redacted; fields that have their default are left out."""
    if isinstance(value, str):
        return _redact_short(value) if len(value) <= LONGEST_REMEMBERED else redact(value)
    if isinstance(value, Mapping):
        return {key: redact_texts(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [redact_texts(item) for item in value]
    if isinstance(value, msgspec.Struct):
        return {name: redact_texts(item) for name, field, default in _fields(type(value)) if (item := getattr(value, field)) != default}
    return value


@cache
def _fields(of: type[msgspec.Struct]) -> tuple[tuple[str, str, Any], ...]:
    """For each field its name in msgpack, its name in Python, and its default."""
    return tuple(
        (field.encode_name, field.name, field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default)
        for field in msgspec.structs.fields(of)
    )
