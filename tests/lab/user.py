"""A user without root on hosts of a lab: with an account, a home, and access to the Python and the checkout."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.lab.hosts import CHECKOUT, ROOT, Host, Process

ROOTS_HOME = Path("/root")
"""Closed to other users. The Python that runs this may lie in it."""


@dataclass(frozen=True)
class User:
    """A user of a host. Functions that take a `Host` to run commands on it run them as this user."""

    host: Host
    login: str
    uid: int

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def tmp(self) -> Path:
        return self.host.tmp

    @property
    def home(self) -> str:
        return f"/run/lab/home-{self.login}"

    @property
    def prefix(self) -> str:
        """Prefix that lets root run a command as this user."""
        return f"setpriv --reuid={self.uid} --regid={self.uid} --clear-groups env HOME={self.home} USER={self.login} LOGNAME={self.login}"

    def ssh(self, command: str, timeout: float = 120, check: bool = True) -> str:
        """The output of `command`, run as this user."""
        return self.host.ssh(f"cd {self.home} && {self.prefix} bash -c {shlex.quote(command)}", timeout, check)

    def spawn(self, *command: str) -> Process:
        return self.host.spawn(*shlex.split(self.prefix), *command)

    def processes(self) -> list[Process]:
        return self.host.processes()


def add_user(host: Host, login: str, uid: int) -> User:
    """Adds a user on this host only: by mounts in its own namespace."""
    user = User(host, login, uid)
    for name, line in (("passwd", f"{login}:x:{uid}:{uid}::{user.home}:/bin/bash"), ("group", f"{login}:x:{uid}:")):
        add_line(host, name, line)
    host.ssh(f"mkdir -p {user.home} && chown {uid}:{uid} {user.home}")
    _open_roots_home(host)
    return user


def add_line(host: Host, name: str, line: str) -> None:
    """Adds a line to a file of /etc, on that host only."""
    own = host.folder / "run" / "lab" / name
    known = own.exists()
    with own.open("a") as file:
        file.write((Path("/etc") / name).read_text() if not known else "")
        file.write(line + "\n")
    own.chmod(0o644)
    if not known:
        host.ssh(f"mount --bind /run/lab/{name} /etc/{name}")


def _open_roots_home(host: Host) -> None:
    """Mounts a folder that all may read over /root, with only what runs cockpit and Ray."""
    inside = [path.relative_to(ROOTS_HOME) for path in needed() if path.is_relative_to(ROOTS_HOME)]
    if not inside or (host.folder / "run" / "lab" / "open-home").exists():
        return
    binds = [f"mkdir -p /run/lab/open-home/{path} && mount --bind {ROOTS_HOME}/{path} /run/lab/open-home/{path}" for path in inside]
    host.ssh(
        " && ".join(
            [
                "mkdir /run/lab/open-home",
                "mount -t tmpfs -o mode=755 tmpfs /run/lab/open-home",
                *binds,
                "mount --rbind /run/lab/open-home /root",
            ]
        )
    )


def needed() -> list[Path]:
    """The folders of this machine that run cockpit and Ray, each once and none within another."""
    found = sorted({Path(os.path.realpath(path)) for path in (CHECKOUT, sys.prefix, sys.base_prefix, ROOT / "cache")})
    return [path for path in found if not any(path != other and path.is_relative_to(other) for other in found)]


def can_run(user: User, program: str) -> bool:
    return bool(user.ssh(f"{program} --version", check=False).strip())
