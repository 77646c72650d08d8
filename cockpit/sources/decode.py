"""JSON of Ray's into typed values, also where Python has written what is no JSON."""

from __future__ import annotations

import json
import math
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


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
            kinder = json.dumps(json.loads(bytes(body), parse_constant=lambda _: None, parse_float=_finite), ensure_ascii=False)
            return _decoder(shape).decode(kinder.encode("utf-8", "replace"))
    except msgspec.ValidationError as error:
        raise NotRayError(f"JSON of another shape ({error})") from None
    except (ValueError, OverflowError, RecursionError):
        raise NotRayError("something that is not JSON") from None


def _decoder(shape: type[T]) -> msgspec.json.Decoder[T]:
    """Building one costs more than using it."""
    if shape not in _DECODERS:
        _DECODERS[shape] = msgspec.json.Decoder(shape, strict=False)
    return _DECODERS[shape]


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None
