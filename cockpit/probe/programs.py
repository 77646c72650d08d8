"""Starts programs that others have installed, under a chosen account, folder and environment, and with limits of time and output."""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import resource
import signal
import subprocess
from contextlib import suppress
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, NoReturn, Sequence

from . import trust
from .trust import Account, TrustError

MAX_BYTES = 32 << 20
"""Bytes of stdout, and of stderr; a limited program can't write more, and of no other is more read."""
_LOADS = re.compile(
    r"(?:BASH_ENV|ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|LD_PRELOAD|LD_AUDIT|PYTHON(?:HOME|PATH|STARTUP|USERBASE|INSPECT|BREAKPOINT))\Z"
)
"""Variables that load other people's code into a shell or a Python."""


class Finished(NamedTuple):
    """How a program ended."""

    code: int | None
    """`None`: it took too long and was killed, or it wrote too much."""
    out: bytes
    err: bytes


def our_account() -> Account:
    """The account that this program runs under."""
    return Account(os.geteuid(), os.getegid(), tuple(os.getgroups()))


def our_environment() -> Dict[str, str]:
    """Our environment. As root, without variables that load code, and with root's own home.

    `sudo` may keep HOME, and shells and Pythons run files in a home.
    """
    if os.geteuid() != trust.ROOT:
        return dict(os.environ)
    try:
        home = pwd.getpwuid(trust.ROOT).pw_dir
    except (KeyError, OSError):
        home = "/root"
    return {**{name: value for name, value in os.environ.items() if not _LOADS.match(name)}, "HOME": home}


def python_flags(account: Account) -> List[str]:
    """Flags with which a Python ignores the environment, and for root also the home, when it imports modules."""
    return ["-I"] if account.uid == trust.ROOT else ["-E"]


def start(
    words: Sequence[str], account: Account, environ: Mapping[str, str], *, before: Callable[[], None] = lambda: None, **more: Any
) -> subprocess.Popen[bytes]:
    """Starts a child in `/`, in a session of its own, without our terminal. `before` runs in the child before it becomes the program.

    As root, it refuses a program that anybody else could change. Raises `TrustError`, `OSError`.
    """
    if account.uid == trust.ROOT:
        _check(words[0])

    def become() -> None:
        account.become()
        before()

    settings: Dict[str, Any] = {"stdin": subprocess.DEVNULL, "cwd": "/", **more}
    try:
        return subprocess.Popen(
            list(words), env=dict(environ), start_new_session=True, preexec_fn=become, **settings  # noqa: PLW1509 only system calls
        )  # fmt: skip
    except subprocess.SubprocessError as error:
        raise PermissionError(1, f"can't switch to user {account.uid}: {error}") from None


def run(
    words: Sequence[str], account: Account, environ: Mapping[str, str], *, limit_s: float, text: bytes = b"", limited: bool = True
) -> Finished:
    """Runs a program until it ends; `text` is its input. Raises `TrustError`, `OSError`.

    Input and output are files in memory, not pipes: the kernel itself limits their size, and nobody has to read while the program runs.
    All files that its descendants write have that limit, for as long as they live. So a login shell of our own account is not `limited`:
    its profile may start programs that go on, as an agent or tmux.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    most = MAX_BYTES if hard == resource.RLIM_INFINITY else min(MAX_BYTES, hard)

    def limit_output() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit fails, instead of a core dump
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    given, out, err = (os.fdopen(os.memfd_create(name), "w+b", buffering=0) for name in ("stdin", "stdout", "stderr"))
    with given, out, err:
        given.write(text)
        given.seek(0)
        # `> /dev/stdout` in a profile truncates the file. Whatever the program writes after that must not lie over the profile's text.
        for file in (out, err):
            fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
        before = limit_output if limited else lambda: None
        process = start(words, account, environ, stdin=given, stdout=out, stderr=err, before=before)
        code: int | None = None
        try:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(limit_s)
        finally:
            end(process)
        texts = [os.pread(file.fileno(), most, 0) for file in (out, err)]
        return Finished(None if most in map(len, texts) else code, *texts)


def replace_us(words: Sequence[str], account: Account, environ: Mapping[str, str]) -> NoReturn:
    """Replaces this program by another one (exec). Raises `TrustError`, `OSError`."""
    if account.uid == trust.ROOT:
        _check(words[0])
    account.become()
    os.chdir("/")
    os.execve(words[0], list(words), dict(environ))  # noqa: S606 no shell wanted


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills it with its process group and closes its pipes; does not wait long for a process that hangs."""
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
