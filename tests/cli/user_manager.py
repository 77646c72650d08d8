"""A real systemd user manager of the user nobody, in namespaces of its own. It needs root, and changes nothing outside of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

SYSTEMD = Path("/lib/systemd/systemd")
CGROUPS = next((path for path in map(Path, ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")) if (path / "cgroup.procs").exists()), None)
NOBODY = 65534
HOME, RUNTIME = "/run/home", f"/run/user/{NOBODY}"
AS_NOBODY = [
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *("env", "-i", f"HOME={HOME}", f"XDG_RUNTIME_DIR={RUNTIME}", f"PATH={os.environ['PATH']}"),
]
READ = (Path(sys.base_prefix), Path(__file__).parents[2])
"""Python and cockpit: they may lie in a home that nobody can't enter, and are mounted again below an open folder of the same name."""

ENTER_CGROUP = """
echo $$ > "$1/cgroup.procs"
shift
exec unshare --cgroup --mount --pid --fork --kill-child --mount-proc "$@"
"""
MAKE_HOST = f"""
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system {RUNTIME} {HOME}/.config/systemd/user
for path in {" ".join(map(str, READ))}; do mkdir -p "/run/read$path"; mount --bind "$path" "/run/read$path"; done
for folder in "$@"; do mount -t tmpfs -o mode=755 tmpfs "$folder"; done
for path in {" ".join(map(str, READ))}; do [ -e "$path" ] || {{ mkdir -p "$path"; mount --bind "/run/read$path" "$path"; }}; done
umount --recursive /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
chown -R {NOBODY}:{NOBODY} /sys/fs/cgroup {RUNTIME} {HOME}
chmod 700 {RUNTIME}
{" ".join(AS_NOBODY)} {SYSTEMD} --user
exit  # else the manager would be process 1, which must be a system's
"""


def why_not() -> str | None:
    """The reason why no user manager can run here."""
    if os.geteuid() != 0:
        return "needs root: a user manager runs in namespaces of its own"
    if not SYSTEMD.exists() or shutil.which("setpriv") is None:
        return "needs systemd: apt install systemd"
    return "needs a cgroup v2 hierarchy" if CGROUPS is None else None


class UserManager:
    """A running manager. Its processes see those of this test, and its network."""

    def __init__(self, inside: int) -> None:
        """`inside`: the id of a process in its namespaces."""
        self._enter = ["nsenter", f"--target={inside}", "--mount", "--pid", "--cgroup", *AS_NOBODY]
        self._inside = inside
        self.home = Path(f"/proc/{inside}/root{HOME}")

    def install(self, name: str, unit: str, *settings: str) -> None:
        """Install a unit, with these settings of its section Service in a drop-in."""
        units = self.home / ".config/systemd/user"
        (units / name).write_text(unit)
        (units / f"{name}.d").mkdir()
        (units / f"{name}.d" / "test.conf").write_text("\n".join(["[Service]", *settings, ""]))
        assert self.systemctl("daemon-reload").returncode == 0

    def systemctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self._enter, "systemctl", "--user", *words], capture_output=True, text=True, timeout=90, check=False)

    def show(self, unit: str) -> dict[str, str]:
        """The properties of a unit."""
        return dict(line.partition("=")[::2] for line in self.systemctl("show", unit).stdout.splitlines())

    def process_of(self, unit: str) -> psutil.Process:
        """The main process of a unit, by its id out here."""
        pid = self.show(unit)["MainPID"]
        for process in psutil.Process(self._inside).children(recursive=True):
            with suppress(FileNotFoundError):
                status = Path(f"/proc/{process.pid}/status").read_text()
                if f"\t{pid}\n" in status[status.index("NSpid:") : status.index("NSpgid:")]:
                    return process
        raise AssertionError(f"{unit} has no process {pid}")


@contextmanager
def user_manager() -> Iterator[UserManager]:
    """Run a manager; all processes of its namespaces end with it."""
    assert CGROUPS is not None
    cgroup = CGROUPS / f"cockpit-test-{os.getpid()}"
    cgroup.mkdir()
    closed = {folder for path in READ for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001}
    outermost = [str(folder) for folder in closed if closed.isdisjoint(folder.parents)]
    words = ["bash", "-ec", ENTER_CGROUP, "enter", str(cgroup), "bash", "-c", MAKE_HOST, "host", *outermost]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        try:
            yield UserManager(_wait_for_manager(running))
        finally:
            running.kill()
            running.wait()
            for folder, _, _ in os.walk(cgroup, topdown=False):
                _remove(Path(folder))


def _wait_for_manager(running: subprocess.Popen[str]) -> int:
    """The id of the first process in its namespaces, once the manager answers."""
    while running.poll() is None:
        for inside in psutil.Process(running.pid).children():
            manager = UserManager(inside.pid)
            if manager.systemctl("is-system-running", "--wait").stdout.strip() == "running":
                return inside.pid
    raise AssertionError(f"no user manager: {running.communicate()[0]}")


def _remove(cgroup: Path) -> None:
    """Remove a cgroup as soon as the kernel has seen its last process end."""
    while cgroup.exists():
        with suppress(OSError):
            cgroup.rmdir()
