"""Decides which calls of a Python stack only wait for work."""

from __future__ import annotations

from cockpit.sources.probes.decode import StackFrame

IDLE_FILES = (
    "threading.py", "queue.py", "selectors.py", "socket.py", "asyncio/", "concurrent/futures/", "multiprocessing/", "ray/_private/",
    "ray/_raylet", "ray/util/", "runpy.py", "default_worker.py", "uvloop/", "tqdm/_monitor.py",
)  # fmt: skip
"""Files with code that waits for work or starts threads. A thread with calls in these files only is idle."""


def is_idle(frame: StackFrame) -> bool:
    """Whether the call only waits for work or starts a thread."""
    return frame.file.startswith(IDLE_FILES) or any(f"/{part}" in frame.file for part in IDLE_FILES)
