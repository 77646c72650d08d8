"""Where this host meets Ray: this very process becomes the task tunnel, in the cluster's own Python, as its user and in its environment."""

from __future__ import annotations

import json
import os
import sys
from typing import NoReturn

from ... import programs
from ...trust import TrustError
from ..host_state import HostScanner
from ..ray import ClusterPython, NoWayError, find_cluster_python, program_text


def enter_cluster(session: str) -> NoReturn:
    """`session` is its name; empty: the only one that lives on this host. What is missing is said on stderr."""
    try:
        _replace_us(find_cluster_python(HostScanner({}).look(0), session or None))
    except (NoWayError, TrustError, OSError) as error:
        sys.exit(str(error))


def _replace_us(cluster: ClusterPython) -> NoReturn:
    """Root becomes Ray's user before a line of that user's code runs. Stdin brings the program, so that requests come another way."""
    requests = os.dup(0)
    os.set_inheritable(requests, True)
    program = os.memfd_create("program")  # type: ignore[attr-defined,unused-ignore]  # Linux
    os.write(program, _text(cluster, requests))
    os.lseek(program, 0, os.SEEK_SET)
    os.dup2(program, 0)
    programs.replace_us([*cluster.command, "cockpit"], cluster.account, cluster.environ)


def _text(cluster: ClusterPython, requests: int) -> bytes:
    return f"{program_text(f'{__package__}.task_tunnel', cluster.packages)}\nmain({json.dumps(cluster.address)}, {requests})\n".encode()
