"""Turns this process into the task tunnel, which runs in the cluster's own Python, as its user and in its environment."""

from __future__ import annotations

import json
import os
import sys
from typing import NoReturn

from ... import programs
from ...trust import TrustError
from ..host_state import HostScanner
from ..ray import NoWayError, find_cluster_python, program_text


def enter_cluster(session: str) -> NoReturn:
    """`session`: its name; empty: the only live one on this host. On failure, the reason goes to stderr."""
    try:
        cluster = find_cluster_python(HostScanner({}).scan(0), session or None)
        # The program comes by stdin, so the requests, which come by our stdin, move to another descriptor.
        requests = os.dup(0)
        os.set_inheritable(requests, True)
        text = f"{program_text(f'{__package__}.task_tunnel', cluster.packages)}\nmain({json.dumps(cluster.address)}, {requests})\n"
        program = os.memfd_create("program")  # type: ignore[attr-defined,unused-ignore]  # Linux
        os.write(program, text.encode())
        os.lseek(program, 0, os.SEEK_SET)
        os.dup2(program, 0)
        # Root becomes Ray's user before any code of that user runs.
        programs.replace_us([*cluster.command, "cockpit"], cluster.account, cluster.environ)
    except (NoWayError, TrustError, OSError) as error:
        sys.exit(str(error))
