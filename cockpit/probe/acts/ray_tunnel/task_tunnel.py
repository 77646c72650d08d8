"""What runs in the cluster's own Python when hosts can't be reached but Ray can: carries programs to its nodes, and what they say back.

Each program runs as one task without CPUs, pinned to its node, in a child of the worker there, which ends when the task does. A request is
a JSON line, `{"id": 1, "node": "…", "program": "base64"}` or `{"cancel": 1}`. What comes back is `{"id": 1, "line": "…"}` for each line of
the program, and when it is over `{"id": 1, "code": 0, "err": "…"}`. The tunnel ends with its requests. Its text
goes into `python -` with a call of `main` at its end. Seen on Ray 2.44.1 and 2.60.0.
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
"""Bytes of a program's stderr that come back."""


def carry(program: bytes) -> Iterator[Any]:
    """Runs in a worker on the node. Each line that the program prints; then, as a pair, its exit code and the end of its stderr.

    What Ray gives a worker is taken out of its environment: the program is no part of Ray.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "CUDA_VISIBLE_"))}
    pipe = subprocess.PIPE
    read = "import sys; exec(sys.stdin.buffer.read())"  # in place of `-`, which would read it byte by byte
    words = [sys.executable, "-I", "-c", read]  # nothing of the folder that the worker stands in is imported
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
    """The programs that run now."""

    def __init__(self, address: str, out: int) -> None:
        self._ray = importlib.import_module("ray")
        self._pinned = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        self._out, self._lock = out, threading.Lock()
        self._under_way: Dict[int, Any] = {}
        self._ray.init(address=address, namespace="cockpit", log_to_driver=False, configure_logging=False, logging_level=logging.ERROR)
        self._task = self._ray.remote(num_cpus=0, max_retries=0, num_returns="streaming")(carry)

    def say(self, line: Mapping[str, Any]) -> None:
        """Whole lines, whoever else speaks."""
        data = json.dumps(line).encode() + b"\n"
        with self._lock:
            while data:
                data = data[os.write(self._out, data) :]

    def obey(self, request: Mapping[str, Any]) -> None:
        """Begin, or break off."""
        if "cancel" in request:
            lines = self._under_way.pop(request["cancel"], None)
            if lines is not None:
                self._ray.cancel(lines, force=True)
            return
        task = self._task.options(name="cockpit", scheduling_strategy=self._pinned(request["node"], soft=False))
        lines = self._under_way[request["id"]] = task.remote(base64.b64decode(request["program"]))
        threading.Thread(target=self._bring, args=(request["id"], lines), daemon=True).start()

    def _bring(self, number: int, lines: Iterator[Any]) -> None:
        try:
            for reference in lines:
                said = self._ray.get(reference)
                if isinstance(said, bytes):
                    self.say({"id": number, "line": said.decode("utf-8", "replace")})
                else:
                    self.say({"id": number, "code": said[0], "err": said[1].decode("utf-8", "replace")})
        except Exception as error:  # noqa: BLE001 Ray raises what it likes: a node that is gone, a worker that was killed, a cancellation
            self.say({"id": number, "code": 255, "err": "Ray: " + (str(error).strip().splitlines() or [type(error).__name__])[-1]})
        finally:
            self._under_way.pop(number, None)


def main(address: str, requests: int) -> None:
    """Until the requests end. Nobody else may speak on stdout: Ray does, now and then."""
    out = os.dup(1)
    os.dup2(2, 1)
    tunnel = TaskTunnel(address, out)
    with os.fdopen(requests) as lines:
        for line in lines:
            tunnel.obey(json.loads(line))
    os._exit(0)
