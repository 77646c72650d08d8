"""Encodes the numbers of a row that change all the time as small integers, whose differences to the last frame mostly fit in a byte.

0 is unknown. Numbers are rounded to what a page shows: half a percent, half a second, a thousandth of an amount of bytes.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from cockpit.model import (
    AgentReport,
    Amount,
    Disk,
    Finding,
    Gpu,
    Hold,
    Host,
    HostMemory,
    MemoryUser,
    Node,
    Process,
    RayProcess,
    Session,
    ShmUser,
    TaskLimit,
    Value,
)

MANTISSA_BITS = 10
"""For amounts of bytes: the error is a two-thousandth at most, and a page shows three digits."""
MAX_NUMBER = 1 << 62
"""Greater than any number or code."""
MAX_SHIFT = 62 - MANTISSA_BITS - 1
LAST_LETTER = 0x7F


class Scale(msgspec.Struct, frozen=True):
    """Encodes a number as a code from 1 on, and decodes it; both keep the order."""

    encode: Callable[[Any], int]
    decode: Callable[[int], Any]


def _encode_amount(amount: int | None) -> int:
    if amount is None or not 0 <= amount < MAX_NUMBER:
        return 0
    shift = max(0, amount.bit_length() - MANTISSA_BITS - 1)
    return (shift << MANTISSA_BITS) + ((amount + (1 << shift >> 1)) >> shift) + 1


def _decode_amount(code: int) -> int:
    whole, exact = code - 1, 2 << MANTISSA_BITS
    if whole < exact:
        return whole
    shift = min((whole >> MANTISSA_BITS) - 1, MAX_SHIFT)
    return ((whole & (1 << MANTISSA_BITS) - 1) + (1 << MANTISSA_BITS)) << shift


def _steps(size: float) -> Scale:
    """A scale with even steps of this size; an integer size decodes to integers."""

    def encode(value: float | None) -> int:
        known = value is not None and 0 <= value < MAX_NUMBER and math.isfinite(value)
        return int(value / size + 0.5) + 1 if known and value is not None else 0

    return Scale(encode, lambda code: (code - 1) * size)


AMOUNT = Scale(_encode_amount, _decode_amount)
PERCENT = MOMENT = _steps(0.5)
WHOLE = _steps(1.0)
COUNT, CLOCK = _steps(1), _steps(50)
LETTER = Scale(
    lambda text: ord(text) + 1 if text and len(text) == 1 and text.isascii() else 0,
    lambda code: chr(code - 1) if code - 1 <= LAST_LETTER else None,
)


class Heard(Value, frozen=True):
    """The time of a source's last good answer."""

    key: str
    at: float | None


class Written(Value, frozen=True):
    """The time when the log of a job's driver was written to last."""

    host: str
    session: str
    job: str
    at: float | None

    @property
    def key(self) -> str:
        """Its identity."""
        return f"{self.host}\0{self.session}\0{self.job}"


class UserRow(Value, frozen=True):
    """A process that holds much of a host's memory."""

    host: str
    user: MemoryUser

    @property
    def key(self) -> str:
        """Its identity."""
        return f"{self.host}\0{self.user.pid}"


class Layout:
    """The fields of a type: changing numbers (`hot`), values of types that have a layout too (`nested`), and the rest."""

    def __init__(self, row: type[Value], hot: Mapping[str, Scale], nested: Sequence[str] = ()) -> None:
        self.hot, self.nested = hot, tuple(nested)
        rest = [name for name in row.__struct_fields__ if name not in hot and name not in nested]
        self.rest: Callable[[Any], Any] = attrgetter(*rest) if rest else lambda _: ()


LAYOUTS: Mapping[type, Layout] = {
    Gpu: Layout(
        Gpu,
        {
            "utilization": PERCENT,
            "memory_used": AMOUNT,
            "power": WHOLE,
            "temperature": WHOLE,
            "clock": CLOCK,
            "clock_reasons": COUNT,
        },
    ),
    Amount: Layout(Amount, {"used": AMOUNT}),
    HostMemory: Layout(HostMemory, {"used": AMOUNT, "shared": AMOUNT}),
    Disk: Layout(Disk, {"used": AMOUNT}),
    Hold: Layout(Hold, {"memory": AMOUNT}),
    RayProcess: Layout(RayProcess, {"state": LETTER, "files": AMOUNT}, ("tasks", "slurm_memory")),
    TaskLimit: Layout(TaskLimit, {"used": AMOUNT}),
    MemoryUser: Layout(MemoryUser, {"rss": AMOUNT, "shared": AMOUNT}),
    ShmUser: Layout(ShmUser, {"size": AMOUNT}),
    Session: Layout(Session, {"size": AMOUNT}),
    Finding: Layout(Finding, {"seen": MOMENT}),
    Process: Layout(Process, {"rss": AMOUNT, "shared": AMOUNT, "state": LETTER}, ("gpus",)),
    AgentReport: Layout(AgentReport, {"seen": MOMENT, "cpu": PERCENT, "shared": AMOUNT}, ("memory", "shm", "disks", "gpus")),
    Node: Layout(Node, {}, ("agent", "object_store")),
    Host: Layout(Host, {"taken": MOMENT, "cpu": PERCENT}, ("memory", "shm", "shm_users", "disks", "gpus", "rays")),
    UserRow: Layout(UserRow, {}, ("user",)),
    Heard: Layout(Heard, {"at": MOMENT}),
    Written: Layout(Written, {"at": MOMENT}),
}
LAYOUT = f"{zlib.crc32(repr([(row.__name__, [*one.hot], one.nested) for row, one in LAYOUTS.items()]).encode()):08x}"
"""It identifies the encoded fields: a recording with another layout can't be read."""


def codes_of(value: Any) -> list[int]:
    """The codes of a row's changing numbers."""
    if isinstance(value, tuple):
        return [code for one in value for code in codes_of(one)]
    if (layout := LAYOUTS.get(type(value))) is None:
        return []
    codes = [scale.encode(getattr(value, name)) for name, scale in layout.hot.items()]
    for name in layout.nested:
        codes += codes_of(getattr(value, name))
    return codes


def rest_of(value: Any) -> Any:
    """The other values of a row; rows with the same rest have the same number of codes."""
    if isinstance(value, tuple):
        return tuple([rest_of(one) for one in value])
    if (layout := LAYOUTS.get(type(value))) is None:
        return value
    return layout.rest(value), [rest_of(getattr(value, name)) for name in layout.nested]


def with_codes(value: Any, codes: Iterator[int]) -> Any:
    """The row with these numbers. A number with the same code as before keeps its exact value."""
    if isinstance(value, tuple):
        return tuple([with_codes(one, codes) for one in value])
    if (layout := LAYOUTS.get(type(value))) is None:
        return value
    changed: dict[str, Any] = {}
    for name, scale in layout.hot.items():
        code = next(codes)
        if code != scale.encode(getattr(value, name)):
            changed[name] = scale.decode(code) if code > 0 else None
    changed.update({name: with_codes(getattr(value, name), codes) for name in layout.nested})
    return replace(value, **changed) if changed else value
