"""Ray's replies into values, the large ones in pieces.

One call of msgspec holds Python's lock (the GIL) from its first byte to its last: 34 ms for 31 MB of nodes, 15 ms for 9 MB of actors. The
thread that draws keys would wait for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import replace

from cockpit.sources.lenient_json import NotRayError, decode
from cockpit.sources.ray import wire

T = TypeVar("T")
PIECE_BYTES: Final = 1 << 18
"""Of a reply: what is larger is read in pieces of about so many, each in half a millisecond."""
_NODES_BEGIN: Final = re.compile(rb'"summary": ?\[(?=(\{"\w+": ?))')


def decode_reply(body: bytes, shape: type[T]) -> wire.Reply[T]:
    """The reply whose data have this shape. Raises `NotRayError`."""
    read = _IN_PIECES.get(get_origin(shape) or shape) if len(body) > PIECE_BYTES else None
    return read(body, shape) if read else decode(body, wire.Reply[shape])  # type: ignore[valid-type]  # a shape is a value here


def _decode_nodes(body: bytes, _: object = None) -> wire.Reply[wire.NodesData]:
    """Some nodes at a time, where the text shows what stands between two."""
    begin = _NODES_BEGIN.search(body)
    try:
        return _decode_cut_nodes(body, begin.end(), b"}, " + begin[1]) if begin else decode(body, wire.Reply[wire.NodesData])
    except NotRayError:
        return decode(body, wire.Reply[wire.NodesData])  # cut at the wrong place, or wrong as a whole, which this then says


def _decode_cut_nodes(body: bytes, begin: int, between: bytes) -> wire.Reply[wire.NodesData]:
    """Cut into lists of nodes; the last ones are read with what stands around all of them.

    No text looks like what stands between two nodes, as a quote in a text has a backslash before it. A cut in a list within a node
    would leave a piece whose brackets don't match.
    """
    nodes: list[wire.Summary] = []
    start = begin
    while (end := body.find(between, start + PIECE_BYTES)) >= 0:
        nodes += decode(b"[%b]" % body[start : end + 1], tuple[wire.Summary, ...])
        start = end + len(b"}, ")
    reply = decode(body if start == begin else body[:begin] + body[start:], wire.Reply[wire.NodesData])
    return reply if reply.data is None else replace(reply, data=replace(reply.data, summary=(*nodes, *reply.data.summary)))


def _decode_list(body: bytes, shape: Any) -> wire.Reply[Any]:
    """Entry by entry."""
    reply = decode(body, wire.Reply[wire.Listed[msgspec.Raw]])
    if reply.data is None:
        return reply
    listing, (entry,) = reply.data.result, get_args(shape)
    entries = tuple([decode(raw, entry) for raw in listing.result])
    return replace(reply, data=wire.Listed(replace(listing, result=entries)))


_IN_PIECES: Final[Mapping[object, Callable[[bytes, Any], wire.Reply[Any]]]] = {wire.NodesData: _decode_nodes, wire.Listed: _decode_list}
