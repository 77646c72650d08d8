"""Mutations of a recording, read to the end: `python -m tests.recording.fuzz 100000`.

Bytes on disk are changed, and, behind right checksums, the packed and unpacked payloads: what somebody sends may be made by hand.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from cockpit.recording.files import Packer, RecordKind, Segment, SegmentHeader, Unpacker, pack_header, pack_record
from cockpit.recording.numbers import LAYOUT
from cockpit.recording.recording import Recording, RecordingError
from tests.recording.recorded import snapshots, write

FRAMES = 12
DEAR = (0, 1, -1, 127, 128, 255, 2**31, 2**32 - 1, 2**62, -(2**62), 2**63 - 1)
TEXTS = ("\x1b]0;owned\x07", "../../etc/passwd", "\u202e", "", "a" * 5000)
Mutation = Callable[[random.Random, bytes], bytes]


class Blocks:
    """The frames of a recording, unpacked: to be changed and packed again."""

    def __init__(self, path: Path) -> None:
        segment, unpacker = Segment(path), Unpacker()
        segment.scan()
        self.data = path.read_bytes()
        self.frames: list[tuple[RecordKind, float, bytes]] = []
        after = 0
        for record in segment.records:
            payload = segment.payload(record, after if record.kind == RecordKind.DELTA else 0)
            if record.kind == RecordKind.EVENTS:
                self.frames.append((RecordKind.EVENTS, record.time, Unpacker().unpack(payload, record.unpacked)))
                continue
            after = record.checksum
            self.frames.append((RecordKind(record.kind), record.time, unpacker.unpack(payload, record.unpacked)))
        segment.close()

    def packed(self, chance: random.Random, change: Mutation) -> bytes:
        """As a file again, with one block changed, and now and then what its record says of it."""
        packer, after, parts = Packer(), 0, [pack_header(SegmentHeader(layout=LAYOUT))]
        chosen = chance.randrange(len(self.frames))
        for number, (kind, moment, block) in enumerate(self.frames):
            text = change(chance, block) if number == chosen else block
            length = chance.choice(DEAR[:5]) % (1 << 32) if number == chosen and chance.random() < 0.1 else len(text)
            payload = Packer().pack(text, anew=True) if kind == RecordKind.EVENTS else packer.pack(text, anew=kind == RecordKind.KEY)
            data, checksum = pack_record(kind, moment, payload, length, after if kind == RecordKind.DELTA else 0)
            after = after if kind == RecordKind.EVENTS else checksum
            parts.append(data)
        return b"".join(parts)


def spoil_bytes(chance: random.Random, data: bytes) -> bytes:
    """Some bytes changed, cut out, doubled."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.randrange(len(changed) or 1)
        what = chance.randrange(4)
        if what == 0 and changed:
            changed[at] = chance.randrange(256)
        elif what == 1:
            del changed[at : at + chance.choice((1, 4, 100))]
        elif what == 2:
            changed[at:at] = changed[at : at + chance.choice((1, 4, 100))]
        else:
            changed[at : at + 4] = chance.choice(DEAR).to_bytes(8, "little", signed=True)[:4]
    return bytes(changed)


def spoil_values(chance: random.Random, block: bytes) -> bytes:
    """One value in it is another one."""
    try:
        value = msgspec.msgpack.decode(block)
    except msgspec.MsgspecError:
        return block
    holder, key = value, None
    while isinstance(holder, dict | list) and holder:
        key = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        if not isinstance(holder[key], dict | list) or not holder[key] or chance.random() < 0.15:
            break
        holder = holder[key]
    if key is not None:
        holder[key] = chance.choice([*DEAR, *TEXTS, None, True, 1e308, float("nan"), [], {}, [[0, 10**6]] * 50, {"edit": [[0, 1]] * 99}])
    return msgspec.msgpack.encode(value)


def mutate(chance: random.Random, blocks: Blocks) -> bytes:
    """A file that differs from the one that was written."""
    kind = chance.randrange(4)
    if kind == 0:
        return spoil_bytes(chance, blocks.data)
    if kind == 1:
        return blocks.data[: chance.randrange(len(blocks.data))]
    return blocks.packed(chance, spoil_bytes if kind == 2 else spoil_values)


def read_all(path: Path) -> int:
    """Everything that a reader asks; how many snapshots it gave. Raises what no reader may raise."""
    try:
        recording = Recording.open(path)
    except RecordingError:
        return 0
    try:
        found = sum(1 for _ in recording.walk())
        recording.snapshot_at((recording.begin + recording.end) / 2)
        assert all(isinstance(text, str) for text in (*recording.damage, *(event.text for event in recording.events())))
        assert list(recording.gaps) is not None
        return found
    finally:
        recording.close()


def run(count: int, seed: int = 0) -> int:
    """So many mutations; how many snapshots were read of all of them."""
    chance, found = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as folder:
        blocks = Blocks(write(Path(folder) / "recordings" / "cluster", list(snapshots(FRAMES))))
        path = Path(folder) / "mutated.cockpit"
        for _ in range(count):
            path.write_bytes(mutate(chance, blocks))
            found += read_all(path)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    found = run(options.count, options.seed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{options.count:,} mutations, {found:,} snapshots read, {time.monotonic() - began:.0f} s, {peak:.0f} MB at most")


if __name__ == "__main__":
    main()
