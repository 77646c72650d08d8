"""Runs in the cluster's own Python if only Ray reaches its nodes: carries programs to the nodes, and their output back.

Each program runs as one task without CPUs, pinned to its node, in a child of the worker there; the child ends with the task. A request is a
JSON line, `{"id": 1, "node": "…", "program": "base64"}` or `{"cancel": 1}`. The answer is `{"id": 1, "line": "…"}` for each line of output,
and `{"id": 1, "code": 0, "err": "…"}` at the end. The tunnel ends when its requests end. Its text goes into `python -` with a call of
`main` at its end. Seen on Ray 2.44.1 and 2.60.0.
"""

from __future__ import annotations

import base64
import importlib
import json
import logging
import os
import subprocess
import sys
import threading
from typing import Any, Dict, Iterator, List, Mapping

ERRORS = 8192
"""Bytes of a program's stderr that are sent back."""


def carry(program: bytes) -> Iterator[Any]:
    """Runs in a worker on the node. Yields each line of output, and then the pair of exit code and end of stderr.

    The variables that Ray gives a worker are removed from the environment, because the program is no part of Ray.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "CUDA_VISIBLE_"))}
    pipe = subprocess.PIPE
    read = "import sys; exec(sys.stdin.buffer.read())"  # instead of `-`, which reads byte by byte
    words = [sys.executable, "-I", "-c", read]  # -I: nothing in the worker's folder is imported
    child: Any = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, env=environ, cwd="/", start_new_session=True)
    errors: List[bytes] = []
    listener = threading.Thread(target=lambda: errors.append(child.stderr.read()[-ERRORS:]), daemon=True)
    listener.start()
    try:
        child.stdin.write(program)
        child.stdin.close()
        for line in child.stdout:  # not `yield from`: Ray sends to its generators
            yield line
        listener.join(5)
        yield child.wait(), b"".join(errors)
    finally:
        child.kill()
        child.wait()


class TaskTunnel:
    """Starts and cancels programs on the nodes, and writes their output."""

    def __init__(self, address: str, out: int) -> None:
        self._ray = importlib.import_module("ray")
        self._pinned = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        self._out, self._lock = out, threading.Lock()
        self._under_way: Dict[int, Any] = {}
        self._ray.init(address=address, namespace="cockpit", log_to_driver=False, configure_logging=False, logging_level=logging.ERROR)
        self._task = self._ray.remote(num_cpus=0, max_retries=0, num_returns="streaming")(carry)

    def write_line(self, line: Mapping[str, Any]) -> None:
        """Writes one whole line, even if several threads write."""
        data = json.dumps(line).encode() + b"\n"
        with self._lock:
            while data:
                data = data[os.write(self._out, data) :]

    def obey(self, request: Mapping[str, Any]) -> None:
        """Carries out one request: starts or cancels a program."""
        if "cancel" in request:
            lines = self._under_way.pop(request["cancel"], None)
            if lines is not None:
                self._ray.cancel(lines, force=True)
            return
        task = self._task.options(name="cockpit", scheduling_strategy=self._pinned(request["node"], soft=False))
        lines = self._under_way[request["id"]] = task.remote(base64.b64decode(request["program"]))
        threading.Thread(target=self._send_output, args=(request["id"], lines), daemon=True).start()

    def _send_output(self, number: int, lines: Iterator[Any]) -> None:
        try:
            for reference in lines:
                output = self._ray.get(reference)
                if isinstance(output, bytes):
                    self.write_line({"id": number, "line": output.decode("utf-8", "replace")})
                else:
                    self.write_line({"id": number, "code": output[0], "err": output[1].decode("utf-8", "replace")})
        except Exception as error:  # noqa: BLE001 Ray raises many types: for a lost node, a killed worker, a cancellation
            self.write_line({"id": number, "code": 255, "err": "Ray: " + (str(error).strip().splitlines() or [type(error).__name__])[-1]})
        finally:
            self._under_way.pop(number, None)


def main(address: str, requests: int) -> None:
    """Carries out requests until they end. Ray sometimes writes to stdout, so its output goes to stderr."""
    out = os.dup(1)
    os.dup2(2, 1)
    tunnel = TaskTunnel(address, out)
    with os.fdopen(requests) as lines:
        for line in lines:
            tunnel.obey(json.loads(line))
    os._exit(0)
