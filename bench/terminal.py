"""A terminal that nobody looks at: runs a program in it, drains what it draws, and knows when something was drawn, and how."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench import process

COLUMNS, LINES = 160, 50
_TOKEN = re.compile(
    rb"\x1b\[([0-9;:]*)m|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[PX^_\]].*?(?:\x07|\x1b\\)|\x1b[ -/]*[0-OQ-WYZ`-~]|[^\x1b]+", re.DOTALL
)


class NothingDrawnError(Exception):
    """It didn't draw in time what was waited for."""


class Terminal:
    """A program in a terminal of its own, from its start to its end."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None) -> None:
        self.argv = argv
        self._screen, program = os.openpty()
        fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        full = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "COLUMNS": str(COLUMNS),
            "LINES": str(LINES),
            **(env or {}),
        }
        self.started = time.monotonic()
        self._process = subprocess.Popen(argv, stdin=program, stdout=program, stderr=program, start_new_session=True, env=full, cwd=cwd)
        os.close(program)
        self._new = threading.Condition()
        self._pieces: list[tuple[float, bytes]] = []
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def press(self, keys: str) -> float:
        """Send the keys; the moment they were sent."""
        now = time.monotonic()
        os.write(self._screen, keys.encode())
        return now

    @property
    def pieces(self) -> int:
        """How many pieces have been drawn; each is what one read gave."""
        return len(self._pieces)

    def drawn(self, after: int, timeout: float) -> list[tuple[float, bytes]]:
        """What was drawn after the first `after` pieces, each with its moment; empty when nothing came in time."""
        with self._new:
            self._new.wait_for(lambda: len(self._pieces) > after or not self._reader.is_alive(), timeout)
            return self._pieces[after:]

    def wait_for(self, text: str, timeout: float = 30.0) -> float:
        """The moment when `text` had been drawn, from the start on."""
        runs, words, count = Runs(), "", 0
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            for moment, data in self.drawn(count, left):
                count += 1
                words = (words + "".join(run for _, run in runs.of(data)))[-20_000:]
                if re.search(text, words):
                    return moment
            if not self._reader.is_alive() and count == self.pieces:
                break
        raise NothingDrawnError(f"{self.argv[0]} did not draw {text!r}; the last it drew: {words[-300:]!r}")

    def forget(self) -> None:
        """Let go of what has been drawn so far; how many pieces it was is still known."""
        with self._new:
            self._pieces = [(moment, b"") for moment, _ in self._pieces]

    def quiet(self, seconds: float, timeout: float) -> bool:
        """Wait until nothing was drawn for so long; whether that came in time."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if not self.drawn(self.pieces, seconds):
                return True
        return False

    def end_by(self, keys: str, patience: float = 10.0) -> float:
        """Seconds until the program has ended by these keys."""
        pressed = self.press(keys)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        return time.monotonic() - pressed

    def close(self) -> None:
        """End it and all it started."""
        family = process.descendants(self.pid) if self.running else []
        for way in (signal.SIGTERM, signal.SIGKILL):
            if self.running:
                self._process.send_signal(way)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(5)
        for pid in family[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.close(self._screen)

    def _drain(self) -> None:
        # EIO is how a terminal says that nobody has its other end open any more; EBADF, that we closed it.
        with contextlib.suppress(OSError):
            while data := os.read(self._screen, 65536):
                with self._new:
                    self._pieces.append((time.monotonic(), data))
                    self._new.notify_all()
        with self._new:
            self._new.notify_all()


class Runs:
    """Cuts what is drawn into runs of text, each with the style it is drawn in; an escape may come in two pieces."""

    def __init__(self) -> None:
        self._style = b""
        self._rest = b""

    def of(self, data: bytes) -> Iterator[tuple[bytes, str]]:
        """The runs in the next piece."""
        data = self._rest + data
        cut = data.rfind(b"\x1b")
        whole = cut < 0 or _TOKEN.match(data, cut) is not None
        data, self._rest = (data, b"") if whole else (data[:cut], data[cut:])
        for match in _TOKEN.finditer(data):
            if match[1] is not None:
                self._style = match[1]
            elif not match[0].startswith(b"\x1b"):
                yield self._style, match[0].decode(errors="replace")


class Looks:
    """In which style each name was drawn last: how a cursor that moved is told from a screen that was only drawn anew."""

    def __init__(self, names: str) -> None:
        self._names = re.compile(names)
        self._runs = Runs()
        self._styles: dict[str, bytes] = {}

    def changed(self, data: bytes) -> bool:
        """Take in what was drawn; whether a name known before looks different now."""
        changed = False
        for style, run in self._runs.of(data):
            for name in self._names.findall(run):
                changed |= self._styles.get(name, style) != style
                self._styles[name] = style
        return changed
