"""Stands in for vLLM's engine process: `python engine.py DEVICES GIGABYTES` holds GPU memory under the title `VLLM::EngineCore`."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import models

TITLE = b"VLLM::EngineCore"
PR_SET_NAME = 15


def entitle(title: bytes) -> None:
    """Show `title` as the name and as the whole command line of this process, as setproctitle does."""
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(stat[45]), int(stat[46])  # arg_start and arg_end, proc(5)
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, title, min(len(title), end - start - 1))
    ctypes.CDLL(None).prctl(PR_SET_NAME, title[:15])


if __name__ == "__main__":
    devices, gigabytes = sys.argv[1].split(","), float(sys.argv[2])
    entitle(TITLE)
    models.hold(os.getpid(), devices, gigabytes, training=4, generating=93)
