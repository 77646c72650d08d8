"""Ray's replies into values, the large ones in pieces.

One call of msgspec holds Python's lock (the GIL) from its first byte to its last: 34 ms for 31 MB of nodes, 15 ms for 9 MB of actors. The
thread that draws keys would wait for it.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import replace

from cockpit.sources.lenient_json import NotRayError, decode
from cockpit.sources.ray import wire

T = TypeVar("T")
PIECE_BYTES: Final = 1 << 18
"""Of a reply: what is larger is read in pieces of about so many, each in half a millisecond."""
_NODES_BEGIN: Final = re.compile(rb'"summary": ?\[(?=(\{"\w+": ?))')
_BETWEEN: Final = frozenset((b'}, {"now": ', b'}, {"raylet": '))
"""What stands between two nodes, beside what the first begins with: a living one of 2.44 to 2.60 and a dead one begin differently."""


def decode_reply(body: bytes, shape: type[T]) -> wire.Reply[T]:
    """The reply whose data have this shape. Raises `NotRayError`."""
    if get_origin(shape) is wire.Listed and len(body) > PIECE_BYTES:
        return _decode_list(body, shape)
    return decode(body, wire.Reply[shape])  # type: ignore[valid-type]  # a shape is a value here


class NodeReader:
    """Takes the nodes out of a reply while it comes in: the whole of it, 31 MB for 1,000 nodes, is never held.

    Cut where the text shows what stands between two. No text within a node looks like that, as a quote in a text has a backslash before
    it; a cut in a list within a node would leave a piece whose brackets don't match: from there on the reply is left whole.
    """

    def __init__(self) -> None:
        self._nodes: list[wire.Summary] = []
        self._begin, self._searched, self._between = 0, 0, _BETWEEN
        self._is_cut = True

    def take(self, body: bytearray) -> None:
        """Shorten what has come so far by the nodes that are in it."""
        if len(body) - self._begin < PIECE_BYTES or not self._is_cut:
            return
        if not self._begin and not self._find_begin(body):
            return
        end = max(body.rfind(between, max(self._begin, self._searched - len(between))) for between in self._between)
        self._searched = len(body)
        if end < 0:
            return
        try:
            with memoryview(body) as view:
                piece = b"".join((b"[", view[self._begin : end + 1], b"]"))
            self._nodes += decode(piece, tuple[wire.Summary, ...])
            del body[self._begin : end + len(b"}, ")]
            self._searched = self._begin
        except NotRayError:
            self._is_cut = False

    def _find_begin(self, body: bytearray) -> bool:
        """Whether the nodes begin in the first piece; what has none there is left whole, and not searched again."""
        begin = _NODES_BEGIN.search(body)
        self._is_cut = begin is not None
        if begin:
            self._begin = self._searched = begin.end()
            self._between = _BETWEEN | {b"}, " + begin[1]}
        return self._is_cut

    def add_to(self, data: wire.NodesData) -> wire.NodesData:
        """The data of what was left of the reply, with the nodes that were taken out of it."""
        return replace(data, summary=(*self._nodes, *data.summary))


def _decode_list(body: bytes, shape: Any) -> wire.Reply[Any]:
    """Entry by entry."""
    reply = decode(body, wire.Reply[wire.Listed[msgspec.Raw]])
    if reply.data is None:
        return reply
    listing, (entry,) = reply.data.result, get_args(shape)
    entries = tuple([decode(raw, entry) for raw in listing.result])
    return replace(reply, data=wire.Listed(replace(listing, result=entries)))
