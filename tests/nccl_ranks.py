"""Starts processes that answer as the ranks of a job with NCCL do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cockpit.probe.sample.processes import Identity, read_stat

SERVER = Path(__file__).with_name("nccl_server.py")


class Rank:
    """A process of a job that answers on RAS's port."""

    def __init__(
        self, mode: str, port: int, folder: Path, library: str, prefix: Sequence[str] = (), environ: Mapping[str, str] = {}
    ) -> None:
        if library:
            (folder / library).parent.mkdir(parents=True, exist_ok=True)
            (folder / library).write_bytes(b"\x7fELF")
        words = [*prefix, sys.executable, str(SERVER), mode, str(port), str(folder / library) if library else "", str(folder / "report")]
        environ = {**os.environ, "NCCL_RAS_ADDR": f"localhost:{port}", **environ}
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
        assert self.process.stdout.readline() == "listens\n"

    @property
    def identity(self) -> Identity:
        return self.process.pid, read_stat(self.process.pid).ticks

    def heard(self) -> list[str]:
        """All lines that it has received; it is ended by that."""
        self.process.kill()
        return self.process.communicate()[0].split("\n")[:-1]

    def close(self) -> None:
        """End it."""
        self.heard()
