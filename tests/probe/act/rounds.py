"""Rounds of real processes, each ended by plan and deed; the first process of PID and mount namespaces of its own.

    unshare --pid --mount --fork --kill-child python rounds.py FIRST_SEED ROUNDS < actor

Prints one JSON line a round. Whatever is killed in here, nothing outside can be hit: it isn't there.
"""

from __future__ import annotations

import _strptime  # noqa: F401 whatever is imported late, before anybody changes user
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pynvml  # noqa: F401
from grown import LAUNCHER, RECORD, SETSID, USER, Node, Session, World

from cockpit.probe.act import kill  # noqa: F401 the same
from cockpit.probe.act.perform import perform
from cockpit.probe.proc import TICKS_PER_SECOND, boot_time, read_stat

Answer = dict[str, Any]
ROOM = 160
PID, READY, SIGNALS, LAST = 3, 4, 5, 6
STAGE, ACTOR = "/tmp/stage", "/tmp/actor"


class WrongError(Exception):
    """What should not have happened."""


class Round:
    """One made-up host, for real."""

    def __init__(self, seed: int, held: ExitStack) -> None:
        self.world = World(seed)
        self.random = self.world.random
        self.held = held
        self.user = USER if self.random.random() < 0.2 else 0
        self.ticks: dict[int, int] = {}
        self.sockets: dict[str, socket.socket] = {}
        self.stage = self._stage()

    def _stage(self) -> mmap.mmap:
        Path(STAGE).unlink(missing_ok=True)
        Path(STAGE).write_bytes(b"".join(node.packed() for node in self.world.nodes).ljust(ROOM * RECORD.size, b"\0"))
        Path(STAGE).chmod(0o666)
        with Path(STAGE).open("r+b") as file:
            return self.held.enter_context(mmap.mmap(file.fileno(), 0))

    # What the actors say

    def fact(self, at: int, which: int) -> int:
        start = at * RECORD.size + which * 4
        return int.from_bytes(self.stage[start : start + 4], sys.byteorder, signed=True)

    def pid(self, node: Node) -> int:
        return self.fact(node.at, PID)

    def alive(self, node: Node) -> bool:
        found = read_stat(self.pid(node))
        return found is not None and found.ticks == self.ticks[node.at] and found.state not in "ZX"

    # The story

    def play(self) -> Answer:
        for session in self.world.sessions:
            self._make(session)
        self._start(self.world.nodes[LAUNCHER])
        wait(lambda: all(self.fact(node.at, READY) for node in self.world.nodes), "all processes have started", self.tale)
        for node in self.world.nodes:
            found = read_stat(self.pid(node))
            self.ticks[node.at] = found.ticks if found else -1
        self._end(node for node in self.world.nodes if node.dies)
        for session in self.world.sessions:
            if session.life != "live":
                self.sockets[session.path].close()
        self._reuse([node for node in self.world.nodes if node.dies], "keep")
        return self._ended()

    def _make(self, session: Session) -> None:
        for folder in ("logs", "sockets"):
            os.makedirs(f"{session.path}/{folder}", exist_ok=True)
            os.chmod(f"{session.path}/{folder}", 0o777)
        listener = self.held.enter_context(socket.socket(socket.AF_UNIX))
        with suppress(FileNotFoundError):
            os.unlink(f"{session.path}/sockets/raylet")
        listener.bind(f"{session.path}/sockets/raylet")
        os.chmod(f"{session.path}/sockets/raylet", 0o777)
        listener.listen(64)
        self.sockets[session.path] = listener

    def _start(self, node: Node, pid: int | None = None) -> None:
        """As a child of init, with that pid if one is named."""
        words = node.argv
        env = {name: self._filled(value) for name, value in node.env.items()}
        start = node.at * RECORD.size + PID * 4
        for _ in range(1 if pid is None else 100):  # a process that nobody sees any more may have its number for a moment yet
            if pid is not None:
                Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
            child = os.fork()
            if child == 0:
                if pid not in (None, os.getpid()):
                    os._exit(0)
                os.setsid()
                self.stage[start : start + 4] = os.getpid().to_bytes(4, sys.byteorder)
                os.execve(ACTOR, words, env)
            if pid in (None, child):
                return
            time.sleep(0.001)
        raise WrongError(f"pid {pid} could not be had again")

    def _filled(self, text: str) -> str:
        for other in self.world.nodes:
            text = text.replace(f"@{other.at}@", str(self.pid(other)))
        return text

    def _end(self, nodes: Iterable[Node]) -> None:
        nodes = [node for node in nodes if node.at != LAUNCHER]
        for node in nodes:
            os.kill(self.pid(node), signal.SIGKILL)
        wait(lambda: not any(self.alive(node) for node in nodes), "those have ended", self.tale)

    def _reuse(self, gone: list[Node], truth: str) -> None:
        """Other processes get some of their pids."""
        gone = [node for node in gone if is_free(self.pid(node))]
        for node in self.random.sample(gone, min(len(gone), self.random.choice((0, 0, 1, 2)))):
            self._newcomer(self.random.choice((("postgres",), ("python", "train.py"))), {}, truth, self.pid(node))

    def _newcomer(self, argv: tuple[str, ...], env: dict[str, str], truth: str, pid: int | None = None) -> Node:
        new = self.world.add(*argv, comm=argv[0], env=env, truth=truth, flags=SETSID)
        self.stage[new.at * RECORD.size : (new.at + 1) * RECORD.size] = new.packed()
        self._start(new, pid)
        wait(lambda: self.fact(new.at, READY), "the newcomer has started", self.tale)
        found = read_stat(self.pid(new))
        assert found
        self.ticks[new.at] = found.ticks
        return new

    # The act

    def _ended(self) -> Answer:
        due = self._due()
        request = {"act": "kill", "grace": 0.1, "force": self.random.random() < 0.1, **self._told(), **self._meant()}
        plan = self._ask({**request, "stage": "plan"})
        self._compare(plan, self._with_named(request, due))
        targets = plan["targets"]
        lost, fresh = self._meddle(targets)
        done = self._ask({**request, "stage": "do", "targets": targets})
        self._check(done, targets, lost)
        if fresh:
            again = {**request, "named": None}
            self._ask({**again, "stage": "do", "targets": self._ask({**again, "stage": "plan"})["targets"]})
            if any(self.alive(node) for node in fresh):
                raise WrongError("an orphan that came after the plan was not found by the next one")
        return {"processes": sum(1 for _ in self.world.living()), "ended": len(done["done"]), "refused": len(done["refused"])}

    def _due(self) -> set[int]:
        """The records of whoever is left over and may be ended by this user."""
        return {node.at for node in self.world.left() if node.uid == self.user}

    def _told(self) -> Answer:
        told = next((session for session in self.world.sessions if session.told), None)
        jobs = [{"session": told.name, "running": [], "ended": sorted(told.ended_jobs)}] if told else []
        return {"jobs": jobs, "past": [self._past(node) for node in self.world.living() if node.known]}

    def _past(self, node: Node) -> list[Any]:
        assert node.session
        worker, raylet = self.world.nodes[node.worker], self.world.nodes[node.session.raylet]
        until = int((time.time() - boot_time()) * TICKS_PER_SECOND)
        of = [self.pid(worker), self.ticks[worker.at], self.pid(raylet), self.ticks[raylet.at], node.session.path, node.job, until]
        return [self.pid(node), self.ticks[node.at], of, None]

    def _meant(self) -> Answer:
        """In some rounds a few processes are named, whatever they are."""
        if self.random.random() < 0.8:
            return {}
        living = list(self.world.living())
        return {"named": [[self.pid(node), None] for node in self.random.sample(living, min(3, len(living)))], "pids": True}

    def _with_named(self, request: Answer, due: set[int]) -> set[int]:
        if "named" not in request:
            return due
        anybody = {node.at for node in self.world.left() if self.user in (0, node.uid)}
        named = {pid for pid, _ in request["named"]}
        return {at for at in anybody if named & set(line(self.pid(self.world.nodes[at])))}

    def _compare(self, plan: Answer, due: set[int]) -> None:
        planned = {target["pid"] for target in plan["targets"]}
        expected = {self.pid(self.world.nodes[at]) for at in due}
        if planned != expected:
            raise WrongError(
                f"planned wrongly: {sorted(planned - expected)}, not planned: {sorted(expected - planned)}; refused: {plan['refused']}"
            )

    def _meddle(self, targets: list[Answer]) -> tuple[set[int], list[Node]]:
        """Between plan and deed: some end by themselves, their pids become others', and there are new orphans."""
        ended = [node for node in self.world.living() if any(self.pid(node) == target["pid"] for target in targets)]
        ended = self.random.sample(ended, min(len(ended), self.random.choice((0, 0, 1, 2))))
        self._end(ended)
        for node in ended:
            node.dies = True
        self._reuse(ended, "keep")
        fresh = []
        dead = [session for session in self.world.sessions if session.life != "live" and self._raylet_is_free(session)]
        if dead and self.random.random() < 0.3 and self.user == 0:
            fresh.append(self._newcomer(("python", "late.py"), {"RAY_RAYLET_PID": f"@{dead[0].raylet}@"}, "late"))
        return {self.pid(node) for node in ended}, fresh

    def _raylet_is_free(self, session: Session) -> bool:
        return read_stat(self.pid(self.world.nodes[session.raylet])) is None

    def _check(self, done: Answer, targets: list[Answer], lost: set[int]) -> None:
        """Whoever was planned and still is left over must be gone. Nobody else may have got a signal."""
        meant = {(target["pid"], target["ticks"]) for target in targets}
        left = {node.at for node in self.world.left()}
        for node in self.world.living():
            planned = (self.pid(node), self.ticks[node.at]) in meant
            if planned and node.at not in left:
                lost.add(self.pid(node))  # all that spoke against it was its parent, which has ended since
            if planned and node.at in left:
                if self.alive(node):
                    raise WrongError(f"{node.argv} {self.pid(node)} is still there: {done}")
            elif not self.alive(node) or self.fact(node.at, SIGNALS):
                raise WrongError(f"the wrong process was signalled ({self.fact(node.at, LAST)}): {node.argv} {self.pid(node)}: {done}")
        if {one["pid"] for one in done["refused"]} != lost or done["failed"]:
            raise WrongError(f"not {sorted(lost)} were refused: {done}")

    def _ask(self, request: Answer) -> Answer:
        """As a program of its own, and that user's."""
        mine, its = os.pipe()
        if os.fork() == 0:
            try:
                self._perform(request, its)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(its)
        with os.fdopen(mine, "rb") as said:
            answer: Answer = json.loads(said.read() or b"{}")
        if "notes" not in answer:
            raise WrongError(f"no answer: {answer}")
        return answer

    def _perform(self, request: Answer, to: int) -> None:
        if self.user:
            os.setgroups([])
            os.setresgid(self.user, self.user, self.user)
            os.setresuid(self.user, self.user, self.user)
        lines: list[Answer] = []
        perform(json.dumps(request), lines.append)
        os.write(to, json.dumps(lines[-1]).encode())

    def tale(self) -> str:
        """The whole forest, to be read."""
        return "\n".join(self._told_of(node) for node in self.world.nodes)

    def _told_of(self, node: Node) -> str:
        session = f"{node.session.name[-4:]} {node.session.life}{' told' if node.session.told else ''}" if node.session else ""
        marks = f"{'dies ' if node.dies else ''}{'known ' if node.known else ''}flags {node.flags} uid {node.uid} job {node.job}"
        env = {name: self._filled(value)[:40] for name, value in node.env.items() if name != "PATH"}
        fate = self.world.fate(node)
        who = f"{node.at}: pid {self.pid(node)} below {node.parent} {' '.join(node.argv)[-60:]!r}"
        return f"  {who} [{session}] {fate} {marks} {env} > {node.out[-40:]}"


def is_free(pid: int) -> bool:
    """Not even a process group or a session has it as its number."""
    stats = filter(None, (read_stat(int(name)) for name in os.listdir("/proc") if name.isdigit()))
    return all(pid not in (stat.pid, stat.group, stat.leader) for stat in stats)


def line(pid: int) -> list[int]:
    """It and whatever it hangs from."""
    found = [pid]
    while found[-1] > 1 and (stat := read_stat(found[-1])):
        found.append(stat.parent)
    return found


def wait(fact: Callable[[], object], what: str, tale: Callable[[], str]) -> None:
    until = time.monotonic() + 10
    while not fact():
        if time.monotonic() > until:
            raise WrongError(f"it never came about that {what}\n{tale()}")
        time.sleep(0.0005)


def sweep() -> None:
    """Nothing of the last round may be there in the next."""
    while pids := [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.0005)


def main() -> None:
    first, rounds = map(int, sys.argv[1:])
    actor = sys.stdin.buffer.read()
    for mount in (["-t", "proc", "proc", "/proc"], ["-t", "tmpfs", "-o", "mode=1777", "rounds", "/tmp"]):
        subprocess.run(["mount", *mount], check=True)
    Path(ACTOR).write_bytes(actor)
    Path(ACTOR).chmod(0o755)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # init collects whoever it has adopted
    for seed in range(first, first + rounds):
        print(json.dumps({"seed": seed, **one_round(seed)}), flush=True)


def one_round(seed: int) -> Answer:
    with ExitStack() as held:
        round_ = Round(seed, held)
        try:
            return round_.play()
        except WrongError as wrong:
            return {"wrong": str(wrong), "forest": round_.tale()}
        finally:
            sweep()


if __name__ == "__main__":
    Path("/proc/self/comm").write_text(
        "tini"
    )  # the first process here, to which orphans go: a program of its own would be taken for their parent
    main()
