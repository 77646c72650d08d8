"""Where this host meets Ray: turns this very process into the ferry, in the cluster's own Python, as its user and in its environment."""

from __future__ import annotations

import json
import os
import sys
from typing import NoReturn

from ..proc import Table
from .ray import Gate, NoWayError, find, source


def embark(session: str) -> NoReturn:
    """`session` is its name; empty: the only one that lives on this host. What is missing is said on stderr."""
    try:
        gate = find(Table().scan(), session or None)
        _board(gate)
    except (NoWayError, OSError) as error:
        sys.exit(str(error))


def _board(gate: Gate) -> NoReturn:
    """Root becomes Ray's user before a line of that user's code runs. Stdin brings the program, so that requests come another way."""
    requests = os.dup(0)
    os.set_inheritable(requests, True)
    program = os.memfd_create("program")  # type: ignore[attr-defined,unused-ignore]  # Linux
    os.write(program, _text(gate, requests))
    os.lseek(program, 0, os.SEEK_SET)
    os.dup2(program, 0)
    gate.become()
    os.chdir("/")
    os.execve(gate.python, [gate.python, "-B", "-", "cockpit"], dict(gate.environ))  # noqa: S606 no shell wanted


def _text(gate: Gate, requests: int) -> bytes:
    return f"{source('ferry')}\nmain({json.dumps(gate.address)}, {requests})\n".encode()
