"""A program behind pipes, heard line by line as the event loop turns; whatever it does, nobody waits for it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import IO, Any, Final

from cockpit.config.reach import last_words
from cockpit.secrets import redact
from cockpit.sources.lenient_json import loads
from cockpit.sources.probes.spawn import HELD_CODE, kill_and_reap, spawn
from cockpit.sources.source import SourceError
from cockpit.text import clean, explain_os_error

MAX_LINE_BYTES: Final = 16 << 20
"""Bytes; a look at a host of ten thousand processes has a quarter of it."""
_CHUNK_BYTES: Final = 1 << 16
_CHUNKS_AT_ONCE: Final = 64
"""Chunks read before others get their turn: a flood must not stop the screen."""
_STDERR_BYTES: Final = 8192
"""Bytes of stderr that are remembered."""
_LINGER_S: Final = 1.0
"""Seconds given to a program that has closed its stdout to end by itself."""


HearLines = Callable[[list[bytes]], None]


class LineCutter:
    """Cuts a stream into lines; of one that is too long nothing is kept."""

    def __init__(self, longest: int = MAX_LINE_BYTES) -> None:
        self._longest = longest
        self._begun: list[bytes] = []
        self._size = 0
        self.dropped = 0

    def cut(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
        *whole, rest = chunk.split(b"\n")
        lines = []
        for part in whole:
            self._keep(part)
            if self._size > self._longest:
                self.dropped += 1
            else:
                lines.append(b"".join(self._begun))
            self._begun, self._size = [], 0
        self._keep(rest)
        return lines

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._longest:
            self._begun = []
        elif part:
            self._begun.append(part)


class Child:
    """A running program. `hear` gets its lines, as many as have come at once; `wake` is called when it says no more."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        hear: HearLines,
        wake: Callable[[], None],
        send: Sequence[bytes] | None = None,
    ) -> None:
        """`send`: the parts of a text that it gets; what is sent to many is one part, and is never copied."""
        assert process.stdin and process.stdout and process.stderr, "it has three pipes"  # noqa: PT018, S101 `spawn` sees to it
        self.process, self.started = process, time.monotonic()
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self.garbage = ""
        """The last line that was not meant for us: a banner, a message of the day."""
        held = send is not None and isinstance(process.args, list) and HELD_CODE in process.args
        self._hear, self._wake = hear, wake
        self._send = [memoryview(part) for part in send or ()]
        if held:
            self._send.insert(0, memoryview(b"%d\n" % sum(map(len, self._send))))
        self._stays = send is None or held  # its end tells the child that we are gone; but it may have to come before a text is read
        self._lines, self._errors = LineCutter(), b""
        self.size = 0
        """Bytes of its lines so far."""
        self._closed: float | None = None
        self._loop = asyncio.get_running_loop()
        for pipe in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(self._stdout, self._read)
        self._loop.add_reader(self._stderr, self._read_errors)
        if send is not None:
            self._loop.add_writer(self._stdin, self._write)

    @property
    def last_words(self) -> str:
        """The last line of its stderr, else the last that was no sample: what a person would look at first."""
        said = last_words(self._errors.decode("utf-8", "replace")) or self.garbage
        return redact(clean(said.strip()))[:300]

    def say(self, text: bytes) -> None:
        """Send it more, after all that was said before; only to one that was started without a text."""
        self._send.append(memoryview(text))
        if not self._stdin.closed:
            self._loop.add_writer(self._stdin, self._write)

    def poll_exit(self) -> int | None:
        """Its exit code once it is over, and everything it said has been heard."""
        if self._stdout.closed:
            return self.process.returncode or -signal.SIGKILL
        if self._closed is not None and time.monotonic() - self._closed > _LINGER_S:
            self.process.kill()
        if self.process.poll() is None:
            return None
        if self._closed is None:
            self._read()
        self._read_errors()
        return self.process.returncode

    def end(self) -> None:
        """Kill it, if it still runs, and let go of it."""
        kill_and_reap(self.release())

    def release(self) -> subprocess.Popen[bytes]:
        """Listen no more; the process, for whoever ends it."""
        if not self._loop.is_closed() and not self._stdout.closed:
            for pipe in (self._stdout, self._stderr):
                self._loop.remove_reader(pipe)
            self._stop_writing()
        return self.process

    def _read(self) -> None:
        lines: list[bytes] = []
        for _ in range(_CHUNKS_AT_ONCE):
            chunk = _read_chunk(self._stdout)
            if chunk is None:
                break
            if not chunk:
                self._closed = time.monotonic()
                self._loop.remove_reader(self._stdout)
                self._wake()
                break
            lines += self._lines.cut(chunk)
        if self._lines.dropped:
            self.garbage = f"a line of more than {MAX_LINE_BYTES >> 20} MiB"
        if lines:
            self.size += sum(map(len, lines))
            self._hear(lines)

    def _read_errors(self) -> None:
        for _ in range(_CHUNKS_AT_ONCE):
            chunk = _read_chunk(self._stderr)
            if not chunk:
                if chunk is not None:
                    self._loop.remove_reader(self._stderr)
                return
            self._errors = (self._errors + chunk)[-_STDERR_BYTES:]

    def _write(self) -> None:
        self._send = [part for part in self._send if part]
        try:
            if self._send:
                self._send[0] = self._send[0][os.write(self._stdin.fileno(), self._send[0][:_CHUNK_BYTES]) :]
        except BlockingIOError:
            return
        except OSError:  # it has ended, or doesn't want to hear it; its own last words say why
            self._send = []
        if not any(self._send):
            self._stop_writing()
            if not self._stays:
                self._stdin.close()

    def _stop_writing(self) -> None:
        if not self._stdin.closed:
            self._loop.remove_writer(self._stdin)


def parse_message(line: bytes) -> dict[str, Any] | None:
    """What a probe says; `None`: a banner, a message of the day, whatever else a host prints."""
    if not line.startswith(b"{"):
        return None
    try:
        said = loads(line)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _read_chunk(pipe: IO[bytes]) -> bytes | None:
    """`None`: nothing now; empty: nothing ever again."""
    try:
        return os.read(pipe.fileno(), _CHUNK_BYTES)
    except (BlockingIOError, ValueError):  # ValueError: closed, because what was just heard made somebody end this child
        return None


ANSWER_S: Final = 10.0
"""Seconds for one answer: a busy slurmctld or API server takes a few."""
MAX_BYTES: Final = 64 << 20
"""Of an answer: of thousands of pods it is some 10 kB each."""
_TURN_S: Final = 0.02


def start_child(
    who: str, command: Sequence[str], hear: HearLines, wake: Callable[[], None] = lambda: None, send: Sequence[bytes] | None = None
) -> Child:
    """A program that runs; raises `SourceError`, which begins with who was meant to be asked by it."""
    try:
        return Child(spawn(command), hear, wake, send)
    except OSError as error:
        raise SourceError(f"{who}: {command[0]}: {explain_os_error(error)}") from error


async def wait_for_exit(child: Child, who: str, seconds: float, most_bytes: int) -> int:
    """Its exit code; it has been ended when this returns. Raises `SourceError` where it takes longer, or says more."""
    deadline = time.monotonic() + seconds
    try:
        while (code := child.poll_exit()) is None:
            if child.size > most_bytes:
                raise SourceError(f"{who} sent more than {most_bytes >> 20} MiB and was stopped")
            if time.monotonic() > deadline:
                raise SourceError(f"{who} did not answer within {seconds:.0f} s")
            await asyncio.sleep(_TURN_S)
    finally:
        child.end()
    return code


async def ask_program(who: str, *words: str, send: bytes = b"") -> list[bytes]:
    """The lines that it prints; `who` is asked by it. Raises `SourceError`."""
    lines: list[bytes] = []
    child = start_child(f"{who} can't be asked", words, lines.extend, send=(send,))
    code = await wait_for_exit(child, f"{who} ({words[0]})", ANSWER_S, MAX_BYTES)
    if code or child.garbage:
        said = child.last_words.removeprefix(f"{words[0]}: ")
        raise SourceError(f"{words[0]}: {said or f'exit code {code}'}")
    return lines
