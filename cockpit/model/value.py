"""What every fact is: immutable, compared field by field."""

from __future__ import annotations

import msgspec


class Value(msgspec.Struct, frozen=True, gc=False):
    """An immutable fact; compared field by field."""
