"""`python -m tests.lab.many --hosts 24`: how long commands take on many hosts at once, and whether hosts in trouble delay the others.

Each virtual host has a real sshd, eight simulated GPUs, a leftover process of a dead Ray, and a stand-in for a raylet. Each command runs on
all hosts and on single ones; the median of three runs is printed. Then some hosts are frozen, some refuse connections, and one has a full
disk. The hosts share the cores of one machine, so the CPU of their probes is printed too.
`--share 0.04`: limits each host to this share of a core, also when it runs alone. Hosts in trouble are measured without this limit.
`--kex curve25519-sha256`: OpenSSH 9.0 to 9.8 otherwise spends 0.1 s of CPU on the keys of sntrup761 for each new connection.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
import psutil

from cockpit.config.reach import DEFAULT_REACH
from tests.lab import hosts
from tests.lab.cluster import eventually
from tests.lab.hosts import Host, Lab, Process, stopped
from tests.lab.leftovers import leave_engine
from tests.lab.observe import COCKPIT, Facts
from tests.probe.orphans import dead_session

MIB = 1 << 20
PERIOD_US = 25_000
"""Period of the CPU limit: the shorter it is, the sooner a host continues. The kernel's minimum is 1,000."""
EVERY = 0.2
"""Seconds between two samples of a command's use."""
LIVE = "session_2026-11-22_06-30-00_000001_1"
RAYLET = "/opt/ray/core/src/ray/raylet/raylet"
DO = {
    "doctor": "doctor",
    "status": "status",
    "kill-orphans": "kill-orphans --yes",
    "stop": f"stop --session {LIVE} --yes",
}


class Load(NamedTuple):
    """What cockpit uses on its own host, at one moment or at most."""

    memory: float = 0.0
    """MiB of cockpit itself, resident."""
    ssh_memory: float = 0.0
    """MiB of its ssh processes; shared memory is counted once."""
    ssh: int = 0
    files: int = 0
    sockets: int = 0
    """Of cockpit and its ssh processes."""


class Run(NamedTuple):
    """One run of a command: its end, its output and its cost."""

    code: int
    facts: Facts
    stderr: str
    wall: float
    own_cpu: float
    """Seconds of CPU on the host where it ran: cockpit, its ssh, and the probe of that host."""
    hosts_cpu: float
    """Seconds of CPU on all other hosts: sshd and probes."""
    load: Load


class Many:
    """Some hosts, with cockpit on the first of them. It reaches the others in the default way."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.head, *self.others = lab.hosts.values()
        folder = self.head.folder / "run" / "lab" / "home" / ".config" / "cockpit"
        folder.mkdir(parents=True, exist_ok=True)
        reach = DEFAULT_REACH.replace("ssh ", f"ssh -F {lab.ssh_config} ", 1)
        (folder / "config.yaml").write_bytes(b"reach: " + msgspec.json.encode(reach) + b"\n")

    @property
    def all(self) -> tuple[Host, ...]:
        """All hosts, the first included."""
        return (self.head, *self.others)

    def lay_orphans(self) -> dict[str, Process]:
        """Starts one process of a dead Ray that holds GPU memory on each host; returns them by host."""
        return self._on_each(lambda host: next(iter(host.matching("VLLM::EngineCore")), None) or leave_engine(host, 1))

    def lay_raylets(self) -> dict[str, Process]:
        """Starts a stand-in for the raylet of one live session on each host; returns them by host."""
        return self._on_each(lambda host: next(iter(host.matching("raylet/raylet")), None) or start_raylet(host))

    def _on_each(self, lay: Callable[[Host], Process]) -> dict[str, Process]:
        with ThreadPoolExecutor(4) as pool:
            return dict(zip(self.lab.hosts, pool.map(lay, self.all), strict=True))

    def run(self, command: str, on: Sequence[Host]) -> Run:
        """Runs a command of cockpit on the first host for these hosts."""
        words = f"{COCKPIT} {command} --json --hosts {','.join(host.name for host in on)}"
        if command.startswith("stop"):  # no Ray lists the hosts: name them
            words += f" {' '.join(host.name for host in (self.head, *on))}"
        line = f"began=$(date +%s.%N); {words} >/tmp/out 2>/tmp/stderr; echo $? $began $(date +%s.%N) >/tmp/ended"
        before = [cpu(host) for host in self.all]
        load = self._watch(subprocess.Popen(["ssh", "-F", self.lab.ssh_config, self.head.name, line], stdin=subprocess.DEVNULL))
        spent = [cpu(host) - earlier for host, earlier in zip(self.all, before, strict=True)]
        code, began, ended = (self.head.tmp / "ended").read_text().split()
        facts: Facts = msgspec.json.decode((self.head.tmp / "out").read_bytes() or b"{}")
        stderr = (self.head.tmp / "stderr").read_text()
        return Run(int(code), facts, stderr, float(ended) - float(began), spent[0], sum(spent[1:]), load)

    def _watch(self, command: subprocess.Popen[bytes]) -> Load:
        """The most that it uses until it and its connections have ended."""
        most = Load()
        while command.poll() is None:
            most = Load(*map(max, most, self._load()))
            time.sleep(EVERY)
        return most

    def _load(self) -> Load:
        processes = self.head.processes()
        own = [one for one in processes if str(COCKPIT) in one.command[1:2]]
        ssh = [one for one in processes if one.command[0].startswith("ssh")]
        return Load(
            sum(resident(one.outer.pid, "Rss") for one in own),
            sum(resident(one.outer.pid, "Pss") for one in ssh),
            len(ssh),
            sum(len(open_files(one)) for one in own),
            sum(file.startswith("socket:") for one in (*own, *ssh) for file in open_files(one)),
        )


def start_raylet(host: Host) -> Process:
    """Starts a shell that is called a raylet and waits; makes the folder of its session."""
    folder = host.tmp / "ray" / LIVE
    if not folder.exists():
        dead_session(folder.parent, 1, LIVE)
    path = f"/tmp/ray/{LIVE}"
    words = f"--raylet_socket_name={path}/sockets/raylet --session_dir={path} --node_id={'ab' * 28}"
    return host.spawn("bash", "-c", f"exec -a {RAYLET} bash -c 'mkfifo {path}/wait; exec 3<>{path}/wait; read -u 3' raylet {words}")


def cpu(host: Host) -> float:
    """Seconds of CPU of all ended processes of the host. Waits for connections that are being closed."""
    init = psutil.Process(host.init)
    if init.status() != psutil.STATUS_STOPPED:
        eventually(lambda: not [one for one in init.children() if one.name().startswith("sshd")], every=0.02)
    times = init.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def resident(pid: int, what: str) -> float:
    """MiB of this kind of memory; 0 if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{what}:")), 0.0)


def open_files(process: Process) -> list[str]:
    """The targets of its open files."""
    folder, found = f"/proc/{process.outer.pid}/fd", []
    try:
        for number in os.listdir(folder):
            found.append(os.readlink(f"{folder}/{number}"))
    except OSError:
        return found
    return found


# CPU limits


@contextmanager
def limited(many: Many, share: float) -> Iterator[None]:
    """Limits each host except the first to this share of a core, alone or not. 0: no limit."""
    groups: dict[Host, Path] = {}
    try:
        for host in many.others if share else ():
            groups[host] = _make_group(f"{many.lab.name}-{host.name}", share)
            _move(host, groups[host])
        yield
    finally:
        for host, group in groups.items():
            _move(host, group.parent)
            group.rmdir()


def _make_group(name: str, share: float) -> Path:
    """Makes a cgroup with a CPU limit; version 1 or 2 of Linux's cgroups."""
    version_1 = Path("/sys/fs/cgroup/cpu")
    group = (version_1 if version_1.is_dir() else version_1.parent) / name
    group.mkdir()
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{share * PERIOD_US:.0f} {PERIOD_US}")
    else:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(f"{share * PERIOD_US:.0f}")
    return group


def _move(host: Host, group: Path) -> None:
    """Moves all processes of a host, sshd included."""
    init = psutil.Process(host.init)
    for process in (init, *init.children(recursive=True)):
        with suppress(ProcessLookupError):  # ended meanwhile
            (group / "cgroup.procs").write_text(str(process.pid))


# Trouble


@contextmanager
def refusing(lab: Lab, names: Sequence[str]) -> Iterator[None]:
    """Closes sshd's port on these hosts: connections are refused."""
    before = lab.ssh_config.read_text()
    lab.ssh_config.write_text("".join(f"Host {name}\n  Port 9\n" for name in names) + before)
    try:
        yield
    finally:
        lab.ssh_config.write_text(before)


@contextmanager
def full(host: Host) -> Iterator[None]:
    """Mounts a full disk on its /tmp; the files in it stay visible."""
    inside = ["nsenter", "-t", str(host.init), "-m", "-p", "bash", "-c"]
    fill = "cp -a /tmp/ray /run/ray; mount -t tmpfs -o size=2m tmpfs /tmp; cp -a /run/ray /tmp; cat /dev/zero >/tmp/full 2>/dev/null; true"
    subprocess.run([*inside, fill], check=True)
    try:
        yield
    finally:
        subprocess.run([*inside, "umount -l /tmp; rm -rf /run/ray"], check=True)


class Trouble(NamedTuple):
    """Which hosts have which trouble."""

    frozen: tuple[Host, ...]
    refused: tuple[Host, ...]
    full: Host

    @property
    def unreachable(self) -> frozenset[str]:
        """Hosts on which no action can run."""
        return frozenset(host.name for host in (*self.frozen, *self.refused))


@contextmanager
def troubled(many: Many, frozen: int, refused: int) -> Iterator[Trouble]:
    """Puts this many of the other hosts into trouble, and gives one host a full disk."""
    found = Trouble(tuple(many.others[:frozen]), tuple(many.others[frozen : frozen + refused]), many.others[frozen + refused])
    with ExitStack() as stack:
        stack.enter_context(refusing(many.lab, [host.name for host in found.refused]))
        stack.enter_context(full(found.full))
        for host in found.frozen:
            stack.enter_context(stopped(host))
        yield found


# The table


def lay(many: Many) -> None:
    """Makes the processes and sessions that the commands find."""
    many.lay_orphans()
    many.lay_raylets()


def line(name: str, runs: Sequence[Run], alone: float | None = None) -> str:
    """A line of the table: medians of the runs."""
    wall, own, others = (median(numbers) for numbers in zip(*((run.wall, run.own_cpu, run.hosts_cpu) for run in runs), strict=True))
    load = Load(*(max(numbers) for numbers in zip(*(run.load for run in runs), strict=True)))
    ratio = "" if alone is None else f"{wall / alone:.2f}"
    share = (own + others) / wall / (os.cpu_count() or 1)
    codes = "/".join(sorted({str(run.code) for run in runs}))
    return (
        f"{name:<26}{wall:7.2f} s {ratio:>6}{own:7.2f} s{others:7.2f} s{share:6.0%}{load.memory:8.0f}M{load.ssh_memory:6.0f}M"
        f"{load.ssh:5}{load.files:6}{load.sockets:8}   {codes}"
    )


HEADING = (
    f"{'command':<26}{'wall':>9} {'ratio':>6}{'own CPU':>9}{'hosts':>9}{'busy':>6}{'cockpit':>9}{'ssh':>7}{'ssh':>5}{'files':>6}"
    f"{'sockets':>8}   code"
)


def measure(many: Many, name: str, times: int) -> None:
    """Prints two lines: the slowest single host, and all hosts."""
    alone = []
    for host in many.others[:times]:
        lay(many)
        alone.append(many.run(DO[name], [host]))
    slowest = max(run.wall for run in alone)
    print(line(f"{name}, one host", alone), flush=True)
    together = []
    for _ in range(times):
        lay(many)
        together.append(many.run(DO[name], many.others))
    print(line(f"{name}, {len(many.all)} hosts", together, slowest), flush=True)


def measure_troubled(many: Many, name: str, times: int, frozen: int, refused: int) -> None:
    """Measures with some hosts in trouble."""
    runs = []
    for _ in range(times):
        lay(many)
        with troubled(many, frozen, refused):
            runs.append(many.run(DO[name], many.others))
    print(line(f"{name}, in trouble", runs), flush=True)


@contextmanager
def many_hosts(count: int, name: str) -> Iterator[Many]:
    """A lab of this many hosts; cockpit runs on one of them."""
    made = Lab(name, ["head", *(f"w{number}" for number in range(1, count))], {"PATH": f"{COCKPIT.parent}:{os.environ['PATH']}"})
    try:
        yield Many(made)
    finally:
        made.close()


def main() -> None:
    """Prints the table."""
    flags = ArgumentParser(description=__doc__)
    flags.add_argument("--hosts", type=int, default=24)
    flags.add_argument("--times", type=int, default=3)
    flags.add_argument("--share", type=float, default=0.0, help="of a core that each host has; default: no limit")
    flags.add_argument("--kex", default="", help="how ssh and sshd agree on keys; default: theirs")
    flags.add_argument("--only", nargs="*", choices=list(DO), default=list(DO))
    arguments = flags.parse_args()
    if reason := hosts.why_not():
        sys.exit(reason)
    with many_hosts(arguments.hosts, f"m{os.getpid() % 100000}") as many:
        if arguments.kex:
            many.lab.ssh_config.write_text(f"Host *\n  KexAlgorithms {arguments.kex}\n{many.lab.ssh_config.read_text()}")
        print(HEADING, flush=True)
        with limited(many, arguments.share):
            for name in arguments.only:
                measure(many, name, arguments.times)
        for name in arguments.only:
            measure_troubled(many, name, arguments.times, arguments.hosts // 8, arguments.hosts // 12)


if __name__ == "__main__":
    main()
