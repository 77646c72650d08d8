"""Virtual hosts on one machine, to run real Ray clusters and real SSH on.

Each host has network, process, mount, hostname and IPC namespaces of its own; a private /tmp, /dev/shm, /run and home; eight simulated
GPUs whose state is the file /run/lab/nvml.state inside; and a real sshd on port 22. Nothing outside the lab's folder is changed.

    python -m tests.lab.hosts up head w1 w2
    python -m tests.lab.hosts ssh head nvitop -1
    python -m tests.lab.hosts down

Needs root, iproute2, util-linux, openssh-server and a C compiler.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from cockpit.demo import nvml

ROOT = Path(os.environ.get("COCKPIT_LAB", "/var/tmp/cockpit-lab"))
CHECKOUT = Path(__file__).parents[2]
BY_HAND = "hand"
"""The lab of the command line: it stays until `down`."""
STATE = "/run/lab/nvml.state"
SSHD = "/usr/sbin/sshd"


class LabError(Exception):
    """A lab cannot be made here; the text says what is missing."""


def why_not() -> str | None:
    """What this machine lacks for a lab, or `None`."""
    if os.geteuid() != 0:
        return "a lab of virtual hosts needs root"
    missing = [name for name in ("ip", "unshare", "nsenter", "setpriv", "ssh", "ssh-keygen", SSHD) if not shutil.which(name)]
    if missing:
        return f"a lab of virtual hosts needs {', '.join(missing)}"
    tried = subprocess.run(["unshare", "--net", "--pid", "--mount", "--uts", "--ipc", "--fork", "true"], capture_output=True, check=False)
    return f"no namespaces here: {tried.stderr.decode().strip()}" if tried.returncode else None


def is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@dataclass(frozen=True)
class Process:
    """A process of a host, with its pid inside and outside the host."""

    pid: int
    outer: psutil.Process
    command: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(self.command).strip()

    def is_alive(self) -> bool:
        """Whether it runs. A zombie does not."""
        return is_alive(self.outer)

    def freeze(self) -> None:
        self.outer.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.outer.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kills it. It may have ended by itself just now."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.outer.kill()


@dataclass(frozen=True)
class Host:
    """One virtual host."""

    name: str
    address: str
    folder: Path
    init: int
    """The pid of its first process, seen from outside."""
    ssh_config: Path

    @property
    def state(self) -> Path:
        """The file with the state of its GPUs, seen from outside."""
        return self.folder / "run" / "lab" / "nvml.state"

    @property
    def tmp(self) -> Path:
        """Its /tmp, seen from outside."""
        return self.folder / "tmp"

    def ssh(self, command: str, timeout: float = 120, check: bool = True) -> str:
        """The output of `command`, run over SSH as an operator would."""
        result = subprocess.run(
            ["ssh", "-F", str(self.ssh_config), self.name, command],
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )
        if check and result.returncode:
            raise AssertionError(f"{self.name}: {command!r} ended with {result.returncode}:\n{result.stdout}{result.stderr}")
        return result.stdout

    def spawn(self, *command: str) -> Process:
        """Starts a process that outlives this call, in the host's namespaces and with its GPUs, and finds its pid inside."""
        line = f"setsid {shlex.join(command)} </dev/null >/dev/null 2>&1 & echo $!"
        pid = int(self.ssh(line))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:  # at the moment of its exec it has no command line
            if found := [process for process in self.processes() if process.pid == pid]:
                return found[0]
            time.sleep(0.01)
        raise LabError(f"{self.name}: {shlex.join(command)} ended at once")

    def hold(self, device: int | str, memory: int, busy: int = 0, title: str = "python train.py") -> Process:
        """Starts a process without Ray that holds memory of one of the host's GPUs."""
        process = self.spawn("bash", "-c", f"exec -a {shlex.quote(title)} sleep infinity")
        nvml.add(self.state, f"proc {device} {process.pid} {memory} {busy} start {nvml.start_ticks(process.outer.pid)}")
        return process

    def processes(self) -> list[Process]:
        """All its processes except its init and its sshd."""
        ours = os.readlink(f"/proc/{self.init}/ns/pid")
        found = []
        for pid in psutil.pids():  # `psutil.process_iter` may return an ended process after another got its pid
            with contextlib.suppress(OSError, psutil.Error):  # ended meanwhile
                outer = psutil.Process(pid)
                if os.readlink(f"/proc/{outer.pid}/ns/pid") == ours and outer.pid != self.init:
                    inner = _field(outer.pid, "NSpid").split()[-1]
                    found.append(Process(int(inner), outer, tuple(filter(None, outer.cmdline()))))  # a set title leaves empty words
        return [process for process in found if not process.text.startswith(("sshd:", SSHD)) and process.command]

    def matching(self, *words: str) -> list[Process]:
        """The processes whose command lines contain all these words."""
        return [process for process in self.processes() if all(word in process.text for word in words)]

    def set_network(self, state: str) -> None:
        """Connects its network (`up`) or disconnects it (`down`)."""
        _run("nsenter", "-t", self.init, "-n", "ip", "link", "set", "eth0", state)

    def reset_gpus(self) -> None:
        """Resets the GPUs: eight, idle, without faults."""
        nvml.edit(self.state, lambda _: nvml.gpus(host=self.name))


class Lab:
    """Some hosts on one network, until closed."""

    def __init__(self, name: str, names: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        """`name` is short and unique on this machine; `env` is the environment of a login on a host."""
        reason = why_not()
        if reason:
            raise LabError(reason)
        self.name, self.folder, self.env = name, ROOT / name, dict(env or {})
        self.hosts: dict[str, Host] = {}
        self._outside: list[subprocess.Popen[bytes]] = []
        """The parent of each host's first process."""
        self.ssh_config = self.folder / "ssh_config"
        down(name)
        self.folder.mkdir(parents=True)
        if name != BY_HAND:
            (self.folder / "owner").write_text(f"{os.getpid()} {psutil.Process().create_time()}")
        try:
            self._up(names)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends every process on every host and removes all files of the lab."""
        down(self.name)
        for outside in self._outside:
            outside.wait()

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def _up(self, names: Sequence[str]) -> None:
        for key in ("user", "host"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key)
        with _one_at_a_time():
            network = _free_network()
            _run("ip", "link", "add", _bridge(self.name), "type", "bridge")
            _run("ip", "addr", "add", f"{network}254/24", "dev", _bridge(self.name))
            _run("ip", "link", "set", _bridge(self.name), "up")
        addresses = {name: f"{network}{number}" for number, name in enumerate(names, 1)}
        known = "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in addresses.items())
        (self.folder / "hosts").write_text(known)
        self.ssh_config.write_text("".join(self._ssh_entry(name, address) for name, address in addresses.items()))
        for number, (name, address) in enumerate(addresses.items()):
            self.hosts[name] = self._start(name, address, number)
        for host in self.hosts.values():
            _await_sshd(host)

    def _ssh_entry(self, name: str, address: str) -> str:
        return f"""Host {name}
  HostName {address}
  User root
  IdentityFile {self.folder}/user
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""

    def _start(self, name: str, address: str, number: int) -> Host:
        folder = self.folder / "on" / name
        for part in ("tmp", "run/lab/home", "run/sshd"):
            (folder / part).mkdir(parents=True)
        (folder / "tmp").chmod(0o1777)
        (folder / "run" / "lab" / "nvml.state").write_text("".join(line + "\n" for line in nvml.gpus(host=name)))
        # The hosts end with the owner of the lab, however it ends. A lab made by hand outlives its command.
        fate = ["setpriv", "--pdeathsig", "KILL"] if self.name != BY_HAND else []
        alone = ["unshare", "--net", "--pid", "--mount", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"]
        with (folder / "log").open("w") as log:
            outside = subprocess.Popen(
                [*fate, *alone, "bash", "-c", self._inside(name, folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._outside.append(outside)
        init = _child_of(outside.pid)
        (folder / "init").write_text(f"{init} {outside.pid}")
        _join_network(_bridge(self.name), _link(self.name, number), init, address)
        return Host(name, address, folder, init, self.ssh_config)

    def _inside(self, name: str, folder: Path) -> str:
        library = nvml.build(ROOT / "cache")
        env = {"LD_LIBRARY_PATH": library, nvml.STATE: STATE, "HOME": "/run/lab/home", "PATH": os.environ["PATH"]} | self.env
        login = " ".join(f"{key}={value}" for key, value in env.items())
        return f"""set -e
            mount --make-rprivate /
            mount -t tmpfs -o size=2g tmpfs /dev/shm
            {_files_in_tmp(folder / "tmp")}
            mount --rbind {folder}/tmp /tmp
            mount --bind {self.folder}/hosts /etc/hosts
            mount --bind {folder}/run /run
            hostname {name}
            ip link set lo up
            exec {SSHD} -D -e -h {self.folder}/host -o PidFile=none -o AuthorizedKeysFile={self.folder}/user.pub -o StrictModes=no \\
              -o PermitRootLogin=yes -o MaxStartups=100 -o UsePAM=no -o {shlex.quote("SetEnv=" + login)}"""


def _files_in_tmp(tmp: Path) -> str:
    """The checkout and the Python, if they lie in our /tmp: a host with its own /tmp needs them too."""
    needed = {str(path) for path in (CHECKOUT, Path(sys.prefix)) if path.parts[:2] == ("/", "tmp")}
    outermost = sorted(path for path in needed if not any(path.startswith(f"{other}/") for other in needed))
    binds = [(shlex.quote(path), shlex.quote(f"{tmp}{path.removeprefix('/tmp')}")) for path in outermost]
    return "\n".join(f"mkdir -p {inside} && mount --bind {path} {inside}" for path, inside in binds)


@contextlib.contextmanager
def stopped(host: Host) -> Iterator[None]:
    """Stops its sshd: the kernel still accepts connections, but nobody answers."""
    os.kill(host.init, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(host.init, signal.SIGCONT)


def down(name: str) -> None:
    """Ends the lab of this name, no matter who made it."""
    folder = ROOT / name
    for written in folder.glob("on/*/init"):
        for pid in map(int, written.read_text().split()):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
                process = psutil.Process(pid)
                if _is_host(process):
                    process.kill()
                    process.wait(timeout=60)
    # A closed connection can keep the namespace alive for a minute. Its link can be removed now.
    for link in [*(_link(name, number) for number in range(len(list(folder.glob("on/*"))))), _bridge(name)]:
        subprocess.run(["ip", "link", "del", link], capture_output=True, check=False)
    shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Ends the labs whose owners are dead."""
    for written in ROOT.glob("*/owner"):
        pid, born = written.read_text().split()
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(int(pid)).create_time() == float(born):
                continue
        down(written.parent.name)


def _is_host(process: psutil.Process) -> bool:
    """Whether the process is a host, and not another process with a reused pid."""
    return any(str(ROOT) in word for word in process.cmdline())


def _child_of(pid: int, within: float = 120) -> int:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        children = psutil.Process(pid).children()
        if children and _field(children[0].pid, "NSpid").split()[-1] == "1":
            return children[0].pid
        time.sleep(0.01)
    raise LabError("a host's namespaces did not come up")


def _field(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split(":", 1)[1].strip() for line in lines if line.startswith(name + ":"))


def _join_network(bridge: str, link: str, init: int, address: str) -> None:
    _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", init)
    _run("ip", "link", "set", link, "master", bridge, "up")
    _run("nsenter", "-t", init, "-n", "ip", "addr", "add", f"{address}/24", "dev", "eth0")
    _run("nsenter", "-t", init, "-n", "ip", "link", "set", "eth0", "up")


def _await_sshd(host: Host, within: float = 120) -> None:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((host.address, 22), timeout=1) as connection:
            if connection.recv(4) == b"SSH-":
                return
        time.sleep(0.05)
    raise LabError(f"no sshd on {host.name}: {(host.folder / 'log').read_text().strip()}")


def _bridge(name: str) -> str:
    """An interface's name has at most 15 characters; each host's link adds two."""
    return f"ck{name}"[:13]


def _link(name: str, number: int) -> str:
    return f"{_bridge(name)}-{number}"


def _free_network() -> str:
    taken = subprocess.run(["ip", "-o", "-4", "addr"], capture_output=True, text=True, check=True).stdout
    return next(network for third in range(256) if f" {(network := f'10.99.{third}.')}" not in taken)


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    with (ROOT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(*command: object) -> None:
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if result.returncode:
        raise LabError(f"{' '.join(map(str, command))}: {result.stderr.strip()}")


def main(arguments: Sequence[str]) -> None:
    match arguments:
        case ["up", *names] if names:
            lab = Lab(BY_HAND, names, {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"})
            print(f"ssh -F {lab.ssh_config} {names[0]}")
        case ["down"]:
            down(BY_HAND)
        case ["ssh", name, *command]:
            os.execvp("ssh", ["ssh", "-F", str(ROOT / BY_HAND / "ssh_config"), name, *command])
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
