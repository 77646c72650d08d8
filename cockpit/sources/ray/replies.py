"""Decodes Ray's replies, large ones in pieces.

msgspec holds the GIL during a whole call: 34 ms for 31 MB of nodes, 15 ms for 9 MB of actors. The thread that reacts to keys would wait.
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
"""The size from which a reply is decoded in pieces, and the approximate size of a piece, which takes half a millisecond."""
_NODES_BEGIN: Final = re.compile(rb'"summary": ?\[(?=(\{"\w+": ?))')
_SEPARATORS: Final = frozenset((b'}, {"now": ', b'}, {"raylet": '))
"""The separators of two nodes: a living node of Ray 2.44 to 2.60 and a dead node begin differently. The first node gives another one."""


def decode_reply(body: bytes, shape: type[T]) -> wire.Reply[T]:
    """Decode a reply whose data have this shape. Raises `NotRayError`."""
    if get_origin(shape) is wire.Listed and len(body) > PIECE_BYTES:
        return _decode_list(body, shape)
    return decode(body, wire.Reply[shape])  # type: ignore[valid-type]  # the shape is a value here


class NodeReader:
    """Decodes the nodes of a reply while it arrives, so that the whole reply, 31 MB for 1,000 nodes, is never in memory.

    The reply is cut at the separators of nodes. A string within a node can't look like a separator, since its quotes are escaped. If a list
    within a node does, the brackets of the piece don't match: then the rest of the reply is left whole.
    """

    def __init__(self) -> None:
        self._nodes: list[wire.Summary] = []
        self._begin, self._searched, self._separators = 0, 0, _SEPARATORS
        self._can_cut = True

    def take(self, body: bytearray) -> None:
        """Decode the complete nodes of the part that has arrived, and remove them from `body`."""
        if len(body) - self._begin < PIECE_BYTES or not self._can_cut:
            return
        # The nodes must begin in the first piece; else the reply is left whole and not searched again.
        if not self._begin:
            begin = _NODES_BEGIN.search(body)
            if begin is None:
                self._can_cut = False
                return
            self._begin = self._searched = begin.end()
            self._separators = _SEPARATORS | {b"}, " + begin[1]}
        end = max(body.rfind(separator, max(self._begin, self._searched - len(separator))) for separator in self._separators)
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
            self._can_cut = False

    def add_to(self, data: wire.NodesData) -> wire.NodesData:
        """The data of the rest of the reply, together with the nodes that were decoded before."""
        return replace(data, summary=(*self._nodes, *data.summary))


def _decode_list(body: bytes, shape: Any) -> wire.Reply[Any]:
    """Decode a list entry by entry."""
    reply = decode(body, wire.Reply[wire.Listed[msgspec.Raw]])
    if reply.data is None:
        return reply
    listing, (entry,) = reply.data.result, get_args(shape)
    entries = tuple([decode(raw, entry) for raw in listing.result])
    return replace(reply, data=wire.Listed(replace(listing, result=entries)))
