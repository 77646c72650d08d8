"""Podman on hosts of a lab, root's and an ordinary user's, and containers in which a real Ray runs."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import psutil

from cockpit.demo import nvml
from tests.lab.cluster import ENV, eventually
from tests.lab.conftest import RAY
from tests.lab.hosts import Host, is_alive
from tests.lab.leftovers import OLD, RAYLET
from tests.lab.observe import COCKPIT, Facts
from tests.lab.user import add_line, add_user, needed
from tests.probe.orphans import dead_session, left_variables

PROGRAMS = ("podman", "runc", "conmon", "newuidmap", "slirp4netns")
START = "--num-cpus=4 --object-store-memory=100000000 --disable-usage-stats --block"
PARTS = ("gcs/gcs_server", "raylet/raylet", "DashboardAgent", "dashboard/dashboard.py")
USER, UID, FIRST_SUBUID = "train", 1500, 200_000
"""An ordinary user of a host, and the first uid that this user's containers may use (subuid(5))."""
HOMES = {"root": "/run/lab/home", USER: f"/run/lab/home-{USER}"}
CONF = '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "runc"\n'
STORAGE = '[storage]\ndriver = "vfs"\ngraphroot = "/tmp/store"\nrunroot = "/run/podman"\n'
"""Root's storage. All of it lies in the lab."""


def why_no_podman() -> str | None:
    """What podman lacks on this machine, or `None`."""
    missing = [name for name in PROGRAMS if not shutil.which(name, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")]
    return f"needs {', '.join(missing)} (Debian: apt install podman runc uidmap slirp4netns)" if missing else None


def lay_out_podman(host: Host) -> None:
    """Installs an ordinary user with uids for containers, and podman's configuration. Only this host sees them."""
    add_user(host, USER, UID)
    for name in ("subuid", "subgid"):
        add_line(host, name, f"{USER}:{FIRST_SUBUID}:65536")
    etc = host.folder / "run" / "lab" / "containers"
    etc.mkdir()
    shutil.copy("/etc/containers/policy.json", etc)
    (etc / "containers.conf").write_text(CONF)
    (etc / "storage.conf").write_text(STORAGE)
    host.ssh(
        f"mount --bind /run/lab/containers /etc/containers && mkdir -p /run/user && install -d -m 700 -o {UID} -g {UID} /run/user/{UID}"
    )


def remove_cgroups() -> None:
    """Removes the cgroups that root's containers left, unless another lab has containers."""
    for parent in Path("/sys/fs/cgroup").glob("*/libpod_parent"):
        for folder in (*parent.glob("libpod-*"), parent / "conmon", parent):
            with contextlib.suppress(OSError):
                folder.rmdir()


class Podman:
    """Podman, run as one user of a host."""

    def __init__(self, host: Host, user: str = "root") -> None:
        self.host, self.user = host, user

    def run(self, command: str, check: bool = True) -> str:
        """The output of a shell of that user."""
        if self.user == "root":
            return self.host.ssh(command, check=check)
        kept = " ".join(f"{name}=${name}" for name in ("PATH", "LD_LIBRARY_PATH", nvml.STATE))
        env = f"env -i HOME={HOMES[self.user]} USER={self.user} XDG_RUNTIME_DIR=/run/user/{UID} {kept}"
        login = f"cd / && setpriv --reuid={self.user} --regid={self.user} --init-groups {env}"
        return self.host.ssh(f"{login} bash -c {shlex.quote(command)}", check=check)

    def __call__(self, words: str, check: bool = True) -> str:
        return self.run(f"podman {words}", check)

    def write_config(self, text: str) -> None:
        """Writes cockpit's configuration of that user."""
        self.run(f"mkdir -p ~/.config/cockpit && printf %s {shlex.quote(text)} > ~/.config/cockpit/config.yaml")

    def cockpit(self, words: str) -> tuple[int, Facts]:
        """Runs cockpit as that user, outside all containers: its exit code and the JSON that it prints."""
        printed = self.run(f"{COCKPIT} {words} --json; echo $?")
        return read_printed(printed)

    def watch(self, ends: contextlib.ExitStack) -> Callable[[], Facts]:
        """Starts a cockpit that keeps watching. The returned function gives its newest status."""
        self.run(f"setsid {COCKPIT} status --json --watch --interval 0.5 </dev/null >/tmp/watched.jsonl 2>/tmp/watched.stderr &")
        ends.callback(self.end_watch)

        def now() -> Facts:
            whole = [line for line in (self.host.tmp / "watched.jsonl").read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
            facts: Facts = json.loads(whole[-1])
            return facts

        return now

    def end_watch(self) -> None:
        """Kills it without a warning."""
        for process in self.host.matching("cockpit", "status", "--watch"):
            process.kill()

    def print_for_people(self, words: str) -> str:
        """The output that cockpit prints for people."""
        return self.run(f"{COCKPIT} {words} 2>&1; true")


def read_printed(printed: str) -> tuple[int, Facts]:
    """Reads the JSON that a cockpit printed, and its exit code on the line below."""
    raw, _, code = printed.rstrip().rpartition("\n")
    return int(code), json.loads(raw[raw.index("{") :]) if "{" in raw else {}


class Container:
    """A container with this host's files and its own /tmp and /dev/shm. It has no Ray until `start_ray`."""

    def __init__(self, podman: Podman, name: str, words: str = "--network host", shm: str = "1g", state: str = f"${nvml.STATE}") -> None:
        """`words`: more arguments for `podman run`; `state`: the file with the state of its GPUs."""
        self.podman, self.host, self.name = podman, podman.host, name
        self.root = f"{HOMES[podman.user]}/{name}"
        podman.run(_lay_out_root(self.root))
        binds = " ".join(f"-v {path}:{path}:ro" for path in ("/usr", *(path for path in needed() if not path.is_relative_to("/usr"))))
        own = f"-v /run/lab:/run/lab -v {self.root}.tmp:/tmp"
        env = " ".join(f"-e {key}={value}" for key, value in {**ENV, "RAY_AUTH_MODE": "disabled"}.items())
        gpus = f"-e LD_LIBRARY_PATH=$LD_LIBRARY_PATH -e {nvml.STATE}={state}"
        podman(f"run -d --name {name} --shm-size {shm} {words} {binds} {own} {env} {gpus} --rootfs {self.root} /bin/sleep infinity")

    def start_ray(self, words: str = "", env: str = "") -> None:
        """Starts a head with a dashboard and waits until it reports its node."""
        self.podman(f"exec -d {env} {self.name} {RAY} start --head {START} {words}")
        eventually(lambda: self.run("curl -s -m 5 http://127.0.0.1:8265/api/version"))
        eventually(lambda: any(node["id"] for node in self.look()["nodes"]))  # until then Ray lists no node and only the host is seen

    @property
    def tmp(self) -> Path:
        """Its /tmp, as seen from the machine."""
        return Path(f"{self.host.folder}{self.root}.tmp")

    def run(self, command: str) -> str:
        return self.podman(f"exec {self.name} {command}; true")

    def cockpit(self, words: str) -> tuple[int, Facts]:
        """Runs cockpit inside the container."""
        return read_printed(self.podman(f"exec {self.name} {COCKPIT} {words} --json; echo $?"))

    def look(self) -> Facts:
        """The status that cockpit inside the container reports."""
        return self.cockpit("status")[1]

    def spawn(self, command: str) -> psutil.Process:
        """Starts a `sleep` with another name, adopted by the container's first process. Returns it as seen from the machine."""
        before = {process.pid for process in self.processes()}
        adopted = f"setsid {command} </dev/null >/dev/null 2>&1 & sleep 0.2"
        self.podman(f"exec {self.name} bash -c {shlex.quote(adopted)}")
        return eventually(lambda: next((one for one in self.processes() if one.pid not in before and _is_sleep(one)), None))

    def leave_orphan(self) -> psutil.Process:
        """Leaves a process behind as a worker of a dead Ray would."""
        if not (self.tmp / "ray" / OLD).exists():
            dead_session(self.tmp / "ray", RAYLET, OLD, UID if self.podman.user == USER else 0)
        variables = " ".join(f"{name}={value}" for name, value in left_variables(Path("/tmp"), RAYLET).items())
        return self.spawn(f"env {variables} bash -c 'exec -a VLLM::EngineCore sleep 10000'")

    def hold(self, process: psutil.Process, device: int, memory: int) -> None:
        """The process holds GPU memory inside and outside. As with a real driver, each PID namespace sees its own pids."""
        start, (*_, near, within) = nvml.start_ticks(process.pid), numbers_of(process.pid)
        nvml.add(self.host.state, *(f"proc {device} {pid} {memory} 0 start {start}" for pid in (near, within)))

    @cached_property
    def init(self) -> int:
        """Its first process, as seen from the machine."""
        near = int(self.podman(f"inspect -f '{{{{.State.Pid}}}}' {self.name}"))
        return next(pid for pid in psutil.pids() if numbers_of(pid)[-2:-1] == [near] and is_below(pid, self.host.init))

    def processes(self) -> list[psutil.Process]:
        """All its processes, as seen from the machine."""
        own = os.readlink(f"/proc/{self.init}/ns/pid")
        return [psutil.Process(pid) for pid in psutil.pids() if is_in(pid, own)]

    def spawn_as(self, pid: int) -> psutil.Process:
        """Does the same as `spawn`, with this pid inside the container."""
        last = f"echo {pid - 1} > /proc/sys/kernel/ns_last_pid"
        started = f"setsid sleep 10000 </dev/null >/dev/null 2>&1 & kill -0 {pid}"
        subprocess.run(["nsenter", "-t", str(self.init), "-p", "bash", "-c", f"{last}; {started}"], check=True)
        return eventually(lambda: next(one for one in self.processes() if numbers_of(one.pid)[-1:] == [pid]))

    def restart(self) -> None:
        self.podman(f"restart -t 0 {self.name}")
        self.__dict__.pop("init", None)  # the first process is a new one now

    def parts(self) -> set[psutil.Process]:
        """The living parts of its Ray."""
        return {one for one in self.processes() if is_alive(one) and any(word in " ".join(one.cmdline()) for word in PARTS)}

    def remove(self) -> None:
        self.podman(f"rm -f -t 0 {self.name}", check=False)


def _lay_out_root(root: str) -> str:
    """Makes empty folders: their content is mounted."""
    folders = f"{root}/etc {root}/usr {root}/proc {root}/sys {root}/dev {root}/run {root}/tmp {root}/var/tmp {root}.tmp"
    links = " ".join(f"&& ln -sfn usr/{name} {root}/{name}" for name in ("bin", "sbin", "lib", "lib64"))
    files = "/etc/passwd /etc/group /etc/nsswitch.conf /etc/ld.so.cache"
    return f"mkdir -p {folders} {links} && cp {files} {root}/etc/ && chmod 1777 {root}.tmp"


def _is_sleep(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.name() == "sleep"
    return False


def numbers_of(pid: int) -> list[int]:
    """The pids of a process, from our namespace to its own; empty if it has ended."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return [int(number) for number in next(line for line in lines if line.startswith("NSpid:")).split()[1:]]
    return []


def is_in(pid: int, namespace: str) -> bool:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/pid") == namespace
    return False


def is_below(pid: int, init: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return init in (parent.pid for parent in psutil.Process(pid).parents())
    return False
