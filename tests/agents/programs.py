"""Starts `cockpit mcp` as an agent's program does, and something for it to watch."""

from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager, contextmanager

from mcp import Client, StdioServerParameters

from tests.cli.programs import PROGRAM, started


@contextmanager
def dashboard(*words):
    """The address of a stand-in of Ray's dashboard, made from the answers of real Rays."""
    with started([sys.executable, "-m", "tests.fakes.dashboard", *words]) as child:
        yield child.stdout.readline().strip().removeprefix("address=")


@asynccontextmanager
async def client_of(tmp_path, *words, answer=None, more=()):
    """The SDK's client on a server of its own; `answer`: what its person says to a form."""
    env = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PATH": os.environ["PATH"], "XDG_STATE_HOME": str(tmp_path / "state")}

    env.update(more)

    async def elicit(context, params):
        return answer

    parameters = StdioServerParameters(command=PROGRAM[0], args=[*PROGRAM[1:], "mcp", *words], env=env)
    async with Client(parameters, elicitation_callback=elicit if answer else None) as client:
        yield client
