"""Decodes the JSON of other programs, including the invalid JSON that Python writes."""

from __future__ import annotations

import json
import math
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")
MEND_MAX_BYTES: Final = 32 << 20
"""The longest invalid JSON that is repaired. Python's decoder takes seconds for it, in which the screen does not react to keys."""
_MAX_DIGITS: Final = 30
"""The longest integer that is read. No amount of anything is longer, and an integer of 309 digits is too large for a float."""


class NotRayError(Exception):
    """The body is not an answer of the expected program; the text says how it differs."""


_DECODERS: dict[object, msgspec.json.Decoder[Any]] = {}


def decode(body: bytes | msgspec.Raw, shape: type[T]) -> T:
    """Decode the body as `shape`. Raises `NotRayError`.

    Python writes NaN, Infinity and lone surrogates into its JSON. msgspec refuses them, so such a body is repaired first, which is slow.
    """
    try:
        try:
            return _decoder(shape).decode(body)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            return _decoder(shape).decode(mend(bytes(body), MEND_MAX_BYTES))
    except msgspec.ValidationError as error:
        raise NotRayError(f"unexpected JSON ({error})") from None
    except (ValueError, OverflowError, RecursionError):
        raise NotRayError("data that is not JSON") from None


def loads(text: bytes) -> Any:
    """Decode JSON that Python has written. NaN, infinities and absurdly long integers become `None`. Raises `ValueError`."""
    decoded = text.decode("utf-8", "replace")
    try:
        value = json.loads(decoded, parse_constant=lambda _: None, parse_float=_parse_finite, parse_int=_parse_int)
        if "\\ud" in decoded.lower():  # half a surrogate can't be encoded again, for a file or a request
            return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
        return value
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def mend(text: bytes, largest: int) -> bytes:
    """Turn JSON that Python has written into valid JSON. Raises `ValueError`, also if it is larger than `largest` bytes."""
    if len(text) > largest:
        raise ValueError(f"it is not JSON, and larger than {largest >> 20} MiB")
    return json.dumps(loads(text), ensure_ascii=False).encode()


def _decoder(shape: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of a shape. It is kept, since building one costs more than using it."""
    if shape not in _DECODERS:
        _DECODERS[shape] = msgspec.json.Decoder(shape, strict=False)
    return _DECODERS[shape]


def _parse_int(digits: str) -> int | None:
    return int(digits) if len(digits) <= _MAX_DIGITS else None


def _parse_finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None
