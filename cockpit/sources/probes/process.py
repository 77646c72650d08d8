"""Runs a program behind pipes and reads its output line by line in the event loop, without ever waiting for the program."""

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
"""The longest line that is kept; a sample of a host with ten thousand processes has a quarter of it."""
ANSWER_S: Final = 10.0
"""The timeout of one answer in seconds: a busy slurmctld or API server takes a few."""
MAX_BYTES: Final = 64 << 20
"""The longest answer: a pod has some 10 kB, and there may be thousands."""
_CHUNK_BYTES: Final = 1 << 16
_CHUNKS_AT_ONCE: Final = 64
"""The number of chunks read at once: a flood of output must not stop the screen."""
_STDERR_BYTES: Final = 8192
"""The number of bytes of stderr that are kept, from its end."""
_LINGER_S: Final = 1.0
"""The seconds that a program has to exit after it has closed its stdout."""
_EXIT_CHECK_S: Final = 0.02

OnLines = Callable[[list[bytes]], None]
"""Called with all lines that have come at once."""


class LineCutter:
    """Cuts a stream into lines, and drops lines that are too long."""

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
    """A running program. `on_lines` gets its lines; `on_end` is called when it closes its stdout."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        on_lines: OnLines,
        on_end: Callable[[], None],
        text: bytes | None = None,
    ) -> None:
        """`text` is written to its stdin, which is then closed; without a text it stays open."""
        assert process.stdin and process.stdout and process.stderr, "it has three pipes"  # noqa: PT018, S101 `spawn` sees to it
        self.process, self.started = process, time.monotonic()
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self.garbage = ""
        """The last line that was not meant for cockpit, such as a banner or a message of the day."""
        is_held = text is not None and isinstance(process.args, list) and HELD_CODE in process.args
        self._on_lines, self._on_end = on_lines, on_end
        self._unsent = bytearray(text or b"")
        if is_held:
            self._unsent[:0] = b"%d\n" % len(self._unsent)
        # An open stdin ends with this program, which ends the child. But `python -` reads its program only up to the end of stdin.
        self._keeps_stdin = text is None or is_held
        self._lines, self._errors = LineCutter(), b""
        self.size = 0
        """The number of bytes in its lines so far."""
        self._closed: float | None = None
        self._loop = asyncio.get_running_loop()
        for pipe in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(self._stdout, self._read)
        self._loop.add_reader(self._stderr, self._read_errors)
        if text is not None:
            self._loop.add_writer(self._stdin, self._write)

    @property
    def last_words(self) -> str:
        """The last line of its stderr, else `garbage`: the line that a person would read first. Without secrets."""
        line = last_words(self._errors.decode("utf-8", "replace")) or self.garbage
        return redact(clean(line.strip()))[:300]

    def send(self, text: bytes) -> None:
        """Write more to its stdin, which must be open: it was started without a text."""
        self._unsent += text
        if not self._stdin.closed:
            self._loop.add_writer(self._stdin, self._write)

    def poll_exit(self) -> int | None:
        """The exit code once the program has ended and all its output has been read; else `None`."""
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
        """Kill it, if it still runs, and close its pipes."""
        kill_and_reap(self.release())

    def release(self) -> subprocess.Popen[bytes]:
        """Stop reading and writing. Returns the process, for the caller to kill."""
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
                self._on_end()
                break
            lines += self._lines.cut(chunk)
        if self._lines.dropped:
            self.garbage = f"a line of more than {MAX_LINE_BYTES >> 20} MiB"
        if lines:
            self.size += sum(map(len, lines))
            self._on_lines(lines)

    def _read_errors(self) -> None:
        for _ in range(_CHUNKS_AT_ONCE):
            chunk = _read_chunk(self._stderr)
            if not chunk:
                if chunk is not None:
                    self._loop.remove_reader(self._stderr)
                return
            self._errors = (self._errors + chunk)[-_STDERR_BYTES:]

    def _write(self) -> None:
        try:
            del self._unsent[: os.write(self._stdin.fileno(), self._unsent[:_CHUNK_BYTES])]
        except BlockingIOError:
            return
        except OSError:  # it has ended or closed its stdin; its stderr says why
            self._unsent.clear()
        if not self._unsent:
            self._stop_writing()
            if not self._keeps_stdin:
                self._stdin.close()

    def _stop_writing(self) -> None:
        if not self._stdin.closed:
            self._loop.remove_writer(self._stdin)


def _read_chunk(pipe: IO[bytes]) -> bytes | None:
    """The next bytes; `None`: there are none now; empty: the pipe is closed."""
    try:
        return os.read(pipe.fileno(), _CHUNK_BYTES)
    except (BlockingIOError, ValueError):  # ValueError: the lines just read made the receiver end this child, which closes its pipes
        return None


def parse_message(line: bytes) -> dict[str, Any] | None:
    """The JSON object that a probe has sent; `None` for other output of the host, such as a banner or a message of the day."""
    if not line.startswith(b"{"):
        return None
    try:
        message = loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def start_child(
    who: str, command: Sequence[str], on_lines: OnLines, on_end: Callable[[], None] = lambda: None, text: bytes | None = None
) -> Child:
    """Start a program. Raises `SourceError`, whose text begins with `who`: the host or service that the program asks."""
    try:
        return Child(spawn(command), on_lines, on_end, text)
    except OSError as error:
        raise SourceError(f"{who}: {command[0]}: {explain_os_error(error)}") from error


async def wait_for_exit(child: Child, who: str, seconds: float, most_bytes: int) -> int:
    """Wait for the exit code. Raises `SourceError` if it takes too long or prints too much. The child has been killed on return."""
    deadline = time.monotonic() + seconds
    try:
        while (code := child.poll_exit()) is None:
            if child.size > most_bytes:
                raise SourceError(f"{who} sent more than {most_bytes >> 20} MiB and was stopped")
            if time.monotonic() > deadline:
                raise SourceError(f"{who} did not answer within {seconds:.0f} s")
            await asyncio.sleep(_EXIT_CHECK_S)
    finally:
        child.end()
    return code


async def ask_program(who: str, *words: str, send: bytes = b"") -> list[bytes]:
    """Run a program such as squeue and return the lines that it prints; `who` is the service that it asks. Raises `SourceError`."""
    lines: list[bytes] = []
    child = start_child(f"{who} can't be asked", words, lines.extend, text=send)
    code = await wait_for_exit(child, f"{who} ({words[0]})", ANSWER_S, MAX_BYTES)
    if code or child.garbage:
        reason = child.last_words.removeprefix(f"{words[0]}: ")
        raise SourceError(f"{words[0]}: {reason or f'exit code {code}'}")
    return lines
