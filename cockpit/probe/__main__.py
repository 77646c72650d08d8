"""Runs as `python -m probe`: writes one line about itself, then samples of this host as JSON lines, until nobody reads them."""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import stat
import sys
import threading
import time
from typing import Any, NoReturn, Sequence

from .sample.host import machine
from .sample.host_sample import Sampler, usual_temps
from .sample.logs import list_logs, read_log
from .sample.nccl import ask_nccl
from .sample.network import addresses
from .sample.ports import port_listeners
from .sample.proc import Users, make_legible
from .sample.processes import Identity, lives, read_environ
from .sample.stacks import stack

HELLO = 1
COLLECT_TIMEOUT_S = 0.15
"""Seconds that a sample waits for its collectors. The facts of a slower one are in the next sample."""
FIRST_ANSWERS_S = 0.05
"""Seconds in which further first answers are awaited, so that they share one extra sample."""
ONCE_TIMEOUT_S = 5.0
MIN_INTERVAL_S = 0.1


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Ends by os._exit, because a thread that hangs in a driver would hold up a normal exit."""
    options = _parse_options(words)
    for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(name, signal.SIG_DFL)
    threading.Thread(target=_exit_with_reader, args=(options.lifeline,), name="lifeline", daemon=True).start()
    if options.command == "environ":
        write_line(environ(options.pid, options.ticks))
    elif options.command == "stack":
        write_line(stack(options.pid, options.ticks))
    elif options.command == "port":
        write_line(port_listeners(options.port))
    elif options.command == "nccl":
        write_line(ask_nccl(options.process, even_old=options.even_old))
    elif options.command == "logs":
        write_line(list_logs([*usual_temps()], options.session, options.pattern))
    elif options.command == "log":
        read_log([*usual_temps()], options.session, options.name, options.lines, write_line, follow=options.follow)
    elif options.command == "act":
        from .actions.perform import perform  # imported late: a probe that only reads is sent without it

        perform(options.request, lambda line: write_line(line if "tell" in line else {**line, "machine": machine()}))
    elif options.command == "ray-tunnel":
        from .actions.ray_tunnel.enter import enter_cluster

        enter_cluster(options.session)
    else:
        stream_samples(options.interval, options.once)
    os._exit(0)


def _parse_options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "probe", description="Writes the state of this host's GPUs, processes, memory, disks and Ray sessions as JSON lines."
    )
    parser.add_argument("--interval", type=float, default=2.0, help="seconds between two samples")
    parser.add_argument("--once", action="store_true", help="write one full sample, then end")
    parser.add_argument("--no-lifeline", dest="lifeline", action="store_false", help="continue when stdin ends")
    commands = parser.add_subparsers(dest="command")
    for name, about in (("environ", "the environment of one process"), ("stack", "its Python stacks, by py-spy")):
        one = commands.add_parser(name, help=about)
        one.add_argument("pid", type=int)
        one.add_argument("ticks", type=int, help="its start time, field 22 of /proc/PID/stat")
    port = commands.add_parser("port", help="the processes that listen on a port of this host")
    port.add_argument("port", type=int)
    nccl = commands.add_parser("nccl", help="NCCL's own report on the communicators of a job, from one of its processes")
    nccl.add_argument("process", type=parse_identity, nargs="+", metavar="PID:TICKS")
    nccl.add_argument("--even-old", action="store_true", help="ask also an NCCL whose report can harm its process")
    logs = commands.add_parser("logs", help="the names of the logs of a Ray session on this host")
    logs.add_argument("session")
    logs.add_argument("pattern", help="a pattern as in a shell, such as worker-*")
    log = commands.add_parser("log", help="the last lines of one log")
    log.add_argument("session")
    log.add_argument("name")
    log.add_argument("lines", type=int, help="-1 for all")
    log.add_argument("--follow", action="store_true", help="also write new lines")
    action = commands.add_parser("act", help="plan or carry out an action; the package `actions` describes the JSON request")
    action.add_argument("request")
    tunnel = commands.add_parser("ray-tunnel", help="carry programs to Ray's nodes, see `actions.ray_tunnel`; needs --no-lifeline")
    tunnel.add_argument("session", nargs="?", default="")
    return parser.parse_args(words)


def parse_identity(word: str) -> Identity:
    """`PID:TICKS`."""
    pid, _, ticks = word.partition(":")
    return int(pid), int(ticks)


def stream_samples(interval: float, once: bool) -> None:
    """Writes a sample every `interval` seconds, and an extra one when a slow collector has its first answer."""
    write_line(hello())
    sampler = Sampler(Users())
    sampler.start(ONCE_TIMEOUT_S if once else COLLECT_TIMEOUT_S)
    write_line(sample := sampler.sample())
    due = time.monotonic()
    while not once:
        due = max(due + max(interval, MIN_INTERVAL_S), time.monotonic())
        while sample["unanswered"] and sampler.first.wait(due - time.monotonic()):
            time.sleep(FIRST_ANSWERS_S)
            sampler.first.clear()
            write_line(sample := sampler.sample())
        time.sleep(max(0.0, due - time.monotonic()))
        sampler.refresh(COLLECT_TIMEOUT_S)
        write_line(sample := sampler.sample())


def hello() -> dict[str, Any]:
    """The first line, which describes the probe."""
    python = ".".join(map(str, sys.version_info[:3]))
    return {"hello": HELLO, "host": socket.gethostname(), "addresses": addresses(), "pid": os.getpid(), "python": python}


def environ(pid: int, ticks: int) -> dict[str, Any]:
    """The environment of exactly this process, with its secrets, or an error sentence."""
    if not lives(pid, ticks):
        return {"error": f"Process {pid} has ended; that pid is free or another process's now."}
    found = read_environ(pid)
    if not lives(pid, ticks):
        return {"error": f"Process {pid} has ended while it was read."}
    if found is None:
        return {"error": f"The environment of process {pid} can't be read: it belongs to another user."}
    return {"pid": pid, "ticks": ticks, "environ": {make_legible(name): make_legible(value) for name, value in found.items()}}


def write_line(line: dict[str, Any]) -> None:
    """Writes one line, by a single write if the pipe has room."""
    data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


def _exit_with_reader(lifeline: bool) -> None:
    """Ends this program when its stdin ends, or when nobody reads its stdout any more."""
    watched = select.poll()
    if lifeline and _is_pipe(0):
        watched.register(0, select.POLLIN)
    if _is_pipe(1):
        watched.register(1, 0)
    while True:
        for number, event in watched.poll():
            if number == 1 or event & (select.POLLERR | select.POLLNVAL) or not os.read(0, 4096):
                os._exit(0)


def _is_pipe(number: int) -> bool:
    try:
        mode = os.fstat(number).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


if __name__ == "__main__":
    main()
