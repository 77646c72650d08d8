"""Starts programs that others have installed: as whom, from which folder, in which environment, and how much they may say."""

from __future__ import annotations

import os
import pwd
import re
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, NoReturn, Sequence

from . import trust
from .trust import Account, TrustError

MOST_BYTES = 32 << 20
"""Of what a program says; one that says more is ended."""
_CHUNK_BYTES = 1 << 16
_LOADS = re.compile(
    r"(?:BASH_ENV|ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|LD_PRELOAD|LD_AUDIT|PYTHON(?:HOME|PATH|STARTUP|USERBASE|INSPECT|BREAKPOINT))\Z"
)
"""Variables by which somebody else's code gets into a shell or a Python."""


class Finished(NamedTuple):
    """How a program ended."""

    code: int | None
    """`None`: it was ended, because it took too long or said too much."""
    out: bytes
    err: bytes


def our_account() -> Account:
    """Ourselves."""
    return Account(os.geteuid(), os.getegid(), tuple(os.getgroups()))


def our_environment() -> Dict[str, str]:
    """Ours; but root's home is root's: `sudo` may leave HOME as it was, and shells and Pythons run what lies in a home."""
    if os.geteuid() != trust.ROOT:
        return dict(os.environ)
    return {**{name: value for name, value in os.environ.items() if not _LOADS.match(name)}, "HOME": _home_of_root()}


def _home_of_root() -> str:
    try:
        return pwd.getpwuid(trust.ROOT).pw_dir
    except (KeyError, OSError):
        return "/root"


def python_flags(account: Account) -> List[str]:
    """Nothing of an environment, and for root nothing of a home, decides what a Python imports."""
    return ["-I"] if account.uid == trust.ROOT else ["-E"]


def start(
    words: Sequence[str], account: Account, environ: Mapping[str, str], *, before: Callable[[], None] = lambda: None, **more: Any
) -> subprocess.Popen[bytes]:
    """A child in `/` and a session of its own, without our terminal. `before`: what it does itself before it becomes that program.

    Raises `TrustError`, `OSError`. What root runs, nobody else may be able to change.
    """
    if account.uid == trust.ROOT:
        _check(words[0])

    def become() -> None:
        account.become()
        before()

    settings: Dict[str, Any] = {"stdin": subprocess.DEVNULL, "cwd": "/", **more}
    try:
        return subprocess.Popen(
            list(words), env=dict(environ), start_new_session=True, preexec_fn=become, **settings  # noqa: PLW1509 system calls alone
        )  # fmt: skip
    except subprocess.SubprocessError as error:
        raise PermissionError(1, f"can't switch to user {account.uid}: {error}") from None


def run(words: Sequence[str], account: Account, environ: Mapping[str, str], *, limit_s: float, text: bytes = b"") -> Finished:
    """A program from its start to its end; `text` is what it reads. Raises `TrustError`, `OSError`."""
    pipe = subprocess.PIPE
    process = start(words, account, environ, stdin=pipe if text else subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    try:
        said, ended = _converse(process, text, time.monotonic() + limit_s)
        return Finished(process.wait(2) if ended else None, *said)
    except subprocess.TimeoutExpired:
        return Finished(None, b"", b"")
    finally:
        end(process)


def replace_us(words: Sequence[str], account: Account, environ: Mapping[str, str]) -> NoReturn:
    """We become that program ourselves. Raises `TrustError`, `OSError`."""
    if account.uid == trust.ROOT:
        _check(words[0])
    account.become()
    os.chdir("/")
    os.execve(words[0], list(words), dict(environ))  # noqa: S606 no shell wanted


def end(process: subprocess.Popen[bytes]) -> None:
    """End it with its session, and let go of it; also when it hangs and can't be waited for."""
    if process.poll() is None:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(2)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()


def _check(program: str) -> None:
    reason = trust.why_not_run(program, trust.ROOT) or trust.why_not_interpret(program)
    if reason is not None:
        raise TrustError(f"root does not run {program}: {reason}")


def _converse(process: subprocess.Popen[bytes], text: bytes, until: float) -> tuple[List[bytes], bool]:
    """What it says on both pipes, and whether it has closed them in time and bounds."""
    said = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as ready:
        for stream in said:
            ready.register(stream, selectors.EVENT_READ)  # type: ignore[arg-type]  # both are pipes
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            ready.register(process.stdin, selectors.EVENT_WRITE)
        while ready.get_map() and time.monotonic() < until and sum(map(len, said.values())) < MOST_BYTES:
            for key, _ in ready.select(max(0.0, until - time.monotonic())):
                if key.fileobj is process.stdin:
                    text = _write(process.stdin, text)
                    done = not text
                else:
                    chunk = os.read(key.fd, _CHUNK_BYTES)
                    said[key.fileobj].extend(chunk)  # type: ignore[index]  # one of the two
                    done = not chunk
                if done:
                    ready.unregister(key.fileobj)
        ended = not ready.get_map()
    return [bytes(one) for one in said.values()], ended


def _write(stream: Any, text: bytes) -> bytes:
    """What is left to be written; nothing where nobody reads it any more."""
    try:
        text = text[os.write(stream.fileno(), text[:_CHUNK_BYTES]) :]
    except BlockingIOError:
        return text
    except OSError:
        text = b""
    if not text:
        stream.close()
    return text
