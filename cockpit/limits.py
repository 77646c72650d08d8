"""From where on something is wrong: every threshold of a finding, with the reason for its default."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class Limits(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`findings` in the config file. A finding ends at a lower mark than the one at which it begins, so that it doesn't flicker."""

    orphan_age: Annotated[float, Meta(ge=0, description="Seconds for which GPU memory has had no owner before it is told.")] = 10.0
    """A worker that ends lets its children end after it; that takes a few seconds (seen with vLLM's engines)."""
