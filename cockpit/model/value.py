"""Defines the base class of all facts."""

from __future__ import annotations

import msgspec


class Value(msgspec.Struct, frozen=True, gc=False):
    """An immutable fact, compared field by field."""
