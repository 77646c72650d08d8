"""What a person on a host of the lab sees of cockpit: what `status` prints, and the program's own screen in a real terminal."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.lab.cluster import Cluster, eventually
from tests.lab.hosts import Host, Lab, Process, is_alive

Facts = dict[str, Any]
COCKPIT = Path(sys.executable).with_name("cockpit")
NVML = """
import json, pynvml as n
n.nvmlInit()
gpus = []
for i in range(n.nvmlDeviceGetCount()):
    h = n.nvmlDeviceGetHandleByIndex(i)
    m = n.nvmlDeviceGetMemoryInfo(h)
    gpus.append([i, n.nvmlDeviceGetUUID(h), n.nvmlDeviceGetName(h), n.nvmlDeviceGetUtilizationRates(h).gpu, m.used, m.total])
print(json.dumps(gpus))
"""


def lay_config(lab: Lab) -> None:
    """Let cockpit on every host reach the others as the lab's operator does."""
    reach = f"ssh -F {lab.ssh_config} -o BatchMode=yes -o ConnectTimeout=2 {{name}} {{python}} -"
    for host in lab.hosts.values():
        folder = host.folder / "run" / "lab" / "home" / ".config" / "cockpit"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text(f"reach: {json.dumps(reach)}\n")


def once(host: Host, words: str = "", env: str = "") -> tuple[int, Facts, str]:
    """One `cockpit status --json`: its exit code, what it knows, and what it said beside."""
    printed = host.ssh(f"said=$(mktemp); {env} {COCKPIT} status --json {words} 2>$said; code=$?; echo; echo $code; cat $said; rm $said")
    raw, _, rest = printed.rpartition("}\n\n")
    code, _, said = (rest if raw else printed.lstrip("\n")).partition("\n")
    return int(code), json.loads(raw + "}") if raw else {}, said


def action(host: Host, words: str, env: str = "") -> tuple[int, Facts, str]:
    """One act by its command, `--json`: its exit code, plan and outcome, and what it said beside."""
    printed = host.ssh(
        f"said=$(mktemp); {env} {COCKPIT} {words} --json 2>$said; code=$?; echo; echo $code; cat $said; rm $said", timeout=120
    )
    raw, _, rest = printed.rpartition("}\n\n")
    code, _, said = (rest if raw else printed.lstrip("\n")).partition("\n")
    return int(code), json.loads(raw + "}") if raw else {}, said


class Watcher:
    """A long-lived `cockpit status --json --watch` on a host: what it says now, and how soon it says something else."""

    def __init__(self, host: Host, words: str = "", env: str = "") -> None:
        self.host, self.file = host, host.tmp / "watched.jsonl"
        self.file.write_text("")
        program = f"exec env {env} {COCKPIT} status --json --watch --interval 0.5 {words} >/tmp/watched.jsonl 2>/tmp/watched.said"
        self.process = host.spawn("bash", "-c", program)

    @property
    def now(self) -> Facts:
        """The newest that was printed."""
        lines = self.file.read_bytes().splitlines(keepends=True)
        whole = next((line for line in reversed(lines) if line.endswith(b"\n")), b"{}")
        facts: Facts = json.loads(whole)
        return facts

    @property
    def probe(self) -> Process:
        """The probe of its own host. Raises `ValueError` while there is none."""
        ours = {child.pid for child in self.process.outer.children(recursive=True)}
        probe, *_ = (process for process in self.host.matching("cockpit.probe") if process.outer.pid in ours)
        return probe

    def until(self, fact: Callable[[Facts], object], within: float = 120) -> float:
        """Wait until what it says has this in it; the seconds that it took."""
        began = time.monotonic()
        try:
            eventually(lambda: _known(fact, self.now), within, every=0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}; it says: {brief(self.now)}") from error
        return time.monotonic() - began

    def fault(self, source: str, words: str = "", host: str | None = None, within: float = 120) -> float:
        """Wait until this source is said not to be believed."""
        return self.until(lambda now: [text for text in faults(now, source, host) if words in text], within)

    def trusts(self, within: float = 120) -> float:
        """Wait until nothing is said against any source."""
        return self.until(lambda now: not now["faults"], within)

    def end(self) -> None:
        with contextlib.suppress(psutil.Error):
            self.process.outer.terminate()
            self.process.outer.wait(60)


def _known(fact: Callable[[Facts], object], facts: Facts) -> object:
    """A fact that hangs on something that is not known yet isn't there yet."""
    with contextlib.suppress(TypeError, KeyError):
        return fact(facts)
    return None


def faults(facts: Facts, source: str = "", host: str | None = None) -> list[str]:
    """What is said against a source, or against all of a kind: `ray.` is every question to Ray."""
    return [each["text"] for each in facts["faults"] if each["source"].startswith(source) and host in (None, each["host"])]


def node(facts: Facts, name: str) -> Facts:
    """A node by the name of its host; the living one where it was started anew."""
    named = [each for each in facts["nodes"] or () if each["host"] == name]
    return next(iter(sorted(named, key=lambda each: each["state"] != "ALIVE")), {})


def kinds(facts: Facts, host: str) -> dict[int, str]:
    """What each process of a host is said to be."""
    return {each["pid"]: each["kind"] for each in facts["processes"] or () if each["host"] == host}


def brief(facts: Facts) -> str:
    """What matters of it in a failed test."""
    nodes = [{key: each[key] for key in ("host", "state", "age")} for each in facts.get("nodes") or ()]
    processes = [
        (each["host"], each["pid"], each["kind"], (each["command"] or "")[:60], each["why"]) for each in facts.get("processes") or ()
    ]
    return "\n".join(map(str, (facts.get("cluster"), nodes, facts.get("faults"), facts.get("sessions"), *processes)))


def listed(cluster: Cluster, what: str) -> list[dict[str, Any]]:
    """What `ray list` prints."""
    found: list[dict[str, Any]] = json.loads(cluster.command(cluster.head, f"ray list {what} --format json --limit 1000 --detail"))
    return found


def by_nvml(host: Host) -> list[list[Any]]:
    """What NVML says of a host's GPUs to a program that runs there."""
    found: list[list[Any]] = json.loads(host.ssh(f"{sys.executable} -c {shlex.quote(NVML)}"))
    return found


def by_cockpit(facts: Facts, host: str) -> list[list[Any]]:
    """The same as cockpit has it."""
    fields = ("index", "uuid", "name", "utilization", "memory_used", "memory_total")
    return [[gpu[field] for field in fields] for gpu in node(facts, host)["gpus"]]


class Screen:
    """cockpit in a terminal of a host: tmux holds it, as people's terminals do."""

    def __init__(self, host: Host, words: str = "", *, size: tuple[int, int] = (160, 50), env: str = "") -> None:
        self.host, self.socket = host, host.tmp / "tmux.socket"
        line = f"exec env {env} {COCKPIT} {words}"
        tmux = "tmux -S /tmp/tmux.socket -f /dev/null"
        host.ssh(
            f"LC_ALL=C.UTF-8 {tmux} new-session -d -x {size[0]} -y {size[1]} {shlex.quote('sleep infinity')} \\;"
            f" set -g remain-on-exit on \\; set -g status off \\; respawn-pane -k {shlex.quote(line)}"
        )

    def _tmux(self, *words: str) -> str:
        """From outside: over ssh, each key would take as long as a login."""
        return subprocess.run(["tmux", "-S", str(self.socket), *words], capture_output=True, text=True, check=True).stdout

    @property
    def text(self) -> str:
        """What is on it."""
        return self._tmux("capture-pane", "-p")

    @property
    def raw(self) -> str:
        """What is on it, with its colours."""
        return self._tmux("capture-pane", "-p", "-e")

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def program(self) -> Process:
        """Cockpit itself."""
        pid = int(self._tmux("display-message", "-p", "#{pane_pid}"))
        return next(process for process in self.host.processes() if process.pid == pid)

    def family(self) -> list[psutil.Process]:
        """Cockpit and all its children."""
        return [self.program.outer, *self.program.outer.children(recursive=True)]

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def until(self, *words: str, within: float = 120) -> str:
        """Wait until all these words are on it; the whole of it."""
        return self.till(lambda text: all(word in text for word in words), within)

    def till(self, fact: Callable[[str], object], within: float = 120) -> str:
        """Wait until this is true of what is on it; the whole of it."""
        try:
            return eventually(lambda: (text := self.text) and fact(text) and text, within, every=0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen says:\n{self.text}") from error

    def settled(self) -> None:
        """Wait until it has started: drawn, and no longer at work all the time."""
        self.until("Overview")
        eventually(lambda: self.program.outer.cpu_percent(0.5) < 50, within=120)

    def quit(self) -> float:
        """Press `q`; the seconds until nothing of cockpit runs any more. Its neighbours, other tests, stand back meanwhile."""
        family = self.family()
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.nice(-15)
        began = time.monotonic()
        self.press("q")
        try:
            gone(family)
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen says:\n{self.text}") from error
        return time.monotonic() - began

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self._tmux("kill-server")


def gone(family: list[psutil.Process], within: float = 120) -> None:
    """Wait until none of these runs any more."""
    eventually(lambda: not any(map(is_alive, family)), within, every=0.005)


@contextlib.contextmanager
def screen(host: Host, words: str = "", *, size: tuple[int, int] = (160, 50), env: str = "") -> Iterator[Screen]:
    """A terminal with cockpit in it, for a while."""
    made = Screen(host, words, size=size, env=env)
    try:
        yield made
    finally:
        made.close()
