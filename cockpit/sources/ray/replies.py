"""Decodes the nodes of a reply while it arrives, so that the whole reply, 31 MB for 1,000 nodes, is never in memory."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from cockpit.sources.lenient_json import NotRayError, decode
from cockpit.sources.ray import wire

PART_BYTES: Final = 1 << 18
"""The size from which the part that has arrived is decoded."""
_LIST_BEGIN: Final = b'"summary": ['
_SEPARATORS: Final = (b'}, {"now": ', b'}, {"raylet": ')
"""The separators of two nodes. In Ray 2.44 to 2.60 the JSON of a living node begins with `now`, the JSON of a dead node with `raylet`."""


class NodeReader:
    """The nodes of one reply. A part that can't be decoded stays in the body, whose rest is decoded at the end."""

    def __init__(self) -> None:
        self._nodes: list[wire.Summary] = []
        self._next_size = PART_BYTES

    def take(self, body: bytearray) -> None:
        """Decode the complete nodes of the part that has arrived, and remove them from `body`.

        Quotes within a text are escaped, so no text looks like a separator. A list within a node may: then the brackets of the part
        don't match, and the next try is made when the body has twice the size.
        """
        if len(body) < self._next_size:
            return
        begin = body.find(_LIST_BEGIN) + len(_LIST_BEGIN)
        end = max(body.rfind(separator, begin) for separator in _SEPARATORS)
        self._next_size = 2 * len(body)
        if begin >= len(_LIST_BEGIN) and end >= 0:
            try:
                self._nodes += decode(b"[" + bytes(body[begin : end + 1]) + b"]", tuple[wire.Summary, ...])
            except NotRayError:
                return
            del body[begin : end + len(b"}, ")]
            self._next_size = PART_BYTES

    def add_to(self, data: wire.NodesData) -> wire.NodesData:
        """The data of the rest of the reply, together with the nodes that were decoded before."""
        return replace(data, summary=(*self._nodes, *data.summary))
