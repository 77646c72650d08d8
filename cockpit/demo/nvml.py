"""Builds a simulated NVML, and edits the text file that describes its GPUs, their processes and their faults.

The lines are documented at the top of nvml_sim.c. This module uses only the standard library and runs on Python 3.8, because the demo's
training script imports it too, in the cluster's own Python.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml_sim.c")
STATE = "NVML_SIM_STATE"
"""The environment variable that names the file."""
GIB = 1 << 30


class CompilerError(Exception):
    """The simulated NVML can't be built here. The text is one sentence."""


def build(cache: Path) -> Path:
    """Return the folder with the simulated `libnvidia-ml.so.1`, for LD_LIBRARY_PATH. The library is built once for each source."""
    folder = cache / ("nvml-" + hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12])
    built = folder / "libnvidia-ml.so.1"
    if not built.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            compiled = Path(temporary) / built.name
            compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
            if compiler is None:
                raise CompilerError("no C compiler (cc, gcc or clang) here to build the simulated GPUs with")
            flags = ["-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1"]
            result = subprocess.run([compiler, *flags, "-o", str(compiled), str(SOURCE)], stderr=subprocess.PIPE, text=True, check=False)
            if result.returncode:
                raise CompilerError(f"{compiler} could not build the simulated GPUs: {result.stderr.strip()}")
            compiled.replace(built)
    return folder


def environment(folder: Path, state: Path) -> dict[str, str]:
    """Return the variables with which a process sees the GPUs of `state` through the library in `folder`."""
    others = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": f"{folder}:{others}" if others else str(folder), STATE: str(state)}


def gpus(count: int = 8, memory: int = 80 * GIB, name: str = "NVIDIA H100 80GB HBM3", host: str = "") -> list[str]:
    """Return the lines of idle GPUs. Each `host` gets different UUIDs."""
    mark = hashlib.sha256(host.encode()).hexdigest()
    return [
        f"gpu {index} GPU-{mark[:8]}-{mark[8:12]}-{mark[12:16]}-{mark[16:20]}-{index:012d}"
        f" {memory} {GIB // 2} 0 0 {32 + index % 4} {72000 + 900 * index} 0 0 {name}"
        for index in range(count)
    ]


def edit(state: Path, change: Callable[[list[str]], list[str]]) -> None:
    """Replace the file atomically, under a lock: no reader sees half of it, and no writer loses another's lines."""
    lock = state.with_name(state.name + ".lock")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        lines = state.read_text().splitlines() if state.exists() else []
        written = state.with_name(f"{state.name}.{os.getpid()}")
        written.write_text("".join(line + "\n" for line in change(lines)))
        written.replace(state)


def add(state: Path, *lines: str) -> None:
    """Add lines: a `hang`, an `error`, a `mig` device, a fault of a GPU (`set`, `xid`)."""
    edit(state, lambda before: [*before, *lines])


def remove(state: Path, *beginnings: str) -> None:
    """Remove every line that begins with one of these."""
    edit(state, lambda before: [line for line in before if not line.startswith(beginnings)])


def hold(state: Path, pid: int, devices: Iterable[int | str], memory: int, busy: int = 0, grow: int = 0) -> None:
    """Let `pid` hold `memory` bytes on each of these GPUs (`3`) or MIG devices (`"3.1"`), in place of its earlier holds there.

    It keeps them busy for `busy` percent of the time, and takes `grow` more bytes each second. When the process ends, all of it is free.
    """
    start = start_ticks(pid)
    if start is None:
        return
    names = [str(device) for device in devices]
    mine = tuple(f"proc {name} {pid} " for name in names)
    held = [f"proc {name} {pid} {memory} {busy} start {start} grow {grow}" for name in names]
    edit(state, lambda before: [*(line for line in before if not line.startswith(mine) and not _is_of_dead(line)), *held])


def start_ticks(pid: int) -> int | None:
    """Return the start of a process in clock ticks since boot (field 22 of its stat), or `None` if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])


def _is_of_dead(line: str) -> bool:
    words = line.split()
    return words[:1] == ["proc"] and "start" in words and start_ticks(int(words[2])) != int(words[words.index("start") + 1])
