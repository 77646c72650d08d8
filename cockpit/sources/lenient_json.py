"""JSON of others into values, also where Python has written what is no JSON."""

from __future__ import annotations

import json
import math
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")
MEND_MAX_BYTES: Final = 32 << 20
"""Bytes. Python's reader takes seconds for so many, and no key is drawn meanwhile."""
_MAX_DIGITS: Final = 30
"""Of a whole number: no amount of anything has more, and a float holds no number of 309."""


class NotRayError(Exception):
    """A body that is not what Ray answers; the text says how it differs."""


_DECODERS: dict[object, msgspec.json.Decoder[Any]] = {}


def decode(body: bytes | msgspec.Raw, shape: type[T]) -> T:
    """The body as `shape`, or `NotRayError`.

    Python writes NaN, Infinity and lone surrogates into its JSON, which msgspec rightly refuses: those come the slow way.
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
    """What Python has written, with `None` for what is no number that anything is counted in. Raises `ValueError`."""
    said = text.decode("utf-8", "replace")
    try:
        found = json.loads(said, parse_constant=lambda _: None, parse_float=_parse_finite, parse_int=_parse_whole)
        if "\\ud" in said.lower():  # half a surrogate can't be written down again, neither in a file nor in a request
            return json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
        return found
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def mend(text: bytes, largest: int) -> bytes:
    """The same as JSON that everybody reads. Raises `ValueError`."""
    if len(text) > largest:
        raise ValueError(f"it is not JSON, and larger than {largest >> 20} MiB")
    return json.dumps(loads(text), ensure_ascii=False).encode()


def _decoder(shape: type[T]) -> msgspec.json.Decoder[T]:
    """Building one costs more than using it."""
    if shape not in _DECODERS:
        _DECODERS[shape] = msgspec.json.Decoder(shape, strict=False)
    return _DECODERS[shape]


def _parse_whole(digits: str) -> int | None:
    return int(digits) if len(digits) <= _MAX_DIGITS else None


def _parse_finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None
