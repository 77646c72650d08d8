"""Runs rounds of real processes, each ended by a plan and its execution, as the first process of its own PID and mount namespaces.

    unshare --pid --mount --net --fork --kill-child python rounds.py FIRST_SEED ROUNDS [RAY] < actor

With the path of a `ray` command, a real Ray takes part in each round. Prints one JSON line for each round. Processes
outside of the namespaces do not exist in here, so none of them can be killed.
"""

from __future__ import annotations

import _strptime  # noqa: F401 whatever is imported late, before anybody changes user
import json
import mmap
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pynvml  # noqa: F401

from cockpit.probe.actions import kill  # noqa: F401 the same
from cockpit.probe.actions.perform import perform
from cockpit.probe.sample.proc import TICKS_PER_SECOND, boot_time
from cockpit.probe.sample.processes import lives, read_stat
from tests.probe.actions.generated_host import EVIL, LAUNCHER, RAY, RECORD, SETSID, TEMP, USER, WAYS, GeneratedHost, Node, Session
from tests.probe.actions.real_ray import RealRay

Answer = dict[str, Any]
ROOM = 400
PID, READY, SIGNALS, LAST = 3, 4, 5, 6
EACH = 20
"""Rounds with one real Ray; before the last of them, it has been stopped."""
STAGE, ACTOR = "/tmp/stage", "/tmp/actor"


class WrongError(Exception):
    """A round with a wrong result."""


class Round:
    """One generated host with real processes."""

    def __init__(self, seed: int, held: ExitStack, real: RealRay | None = None) -> None:
        self.generated = GeneratedHost(seed)
        self.random = self.generated.random
        self.held, self.real = held, real
        self.user = USER if self.random.random() < 0.2 and real is None else 0
        self.ticks: dict[int, int] = {}
        self.outer: dict[int, int] = {}
        """By record: the pid in our namespace of a process in its own PID namespace."""
        self.sockets: dict[str, socket.socket] = {}
        self.stage = self._stage()

    def _stage(self) -> mmap.mmap:
        Path(STAGE).unlink(missing_ok=True)
        Path(STAGE).write_bytes(b"".join(node.packed() for node in self.generated.nodes).ljust(ROOM * RECORD.size, b"\0"))
        Path(STAGE).chmod(0o666)
        with Path(STAGE).open("r+b") as file:
            return self.held.enter_context(mmap.mmap(file.fileno(), 0))

    # Answers of the actors

    def fact(self, at: int, which: int) -> int:
        start = at * RECORD.size + which * 4
        return int.from_bytes(self.stage[start : start + 4], sys.byteorder, signed=True)

    def pid(self, node: Node) -> int:
        """The pid in our namespace."""
        return self.outer.get(node.at) or self.fact(node.at, PID)

    def alive(self, node: Node) -> bool:
        found = read_stat(self.pid(node))
        return found is not None and found.ticks == self.ticks[node.at] and found.state not in "ZX"

    # The course of a round

    def play(self) -> Answer:
        for session in self.generated.sessions:
            self._make(session)
        self._start(self.generated.nodes[LAUNCHER])
        wait(lambda: all(self.fact(node.at, READY) for node in self.generated.nodes), "all processes have started", self.description)
        self.outer = self._numbers_outside()
        for node in self.generated.nodes:
            found = read_stat(self.pid(node))
            self.ticks[node.at] = found.ticks if found else -1
        for session in self.generated.sessions:
            self._record(session)
        self._end(node for node in self.generated.nodes if node.dies)
        for session in self.generated.sessions:
            if session.life != "live":
                self.sockets[session.path].close()
        self._reuse([node for node in self.generated.nodes if node.dies], "keep")
        for session in self.generated.sessions:
            for forgery in sorted(session.forgeries):
                self._forge(session, forgery)
        return self._ended()

    def _make(self, session: Session) -> None:
        """Folders like Ray's: everybody may write there."""
        for folder in (session.path, f"/tmp/evil/{session.name}"):
            for part in ("logs", "sockets"):
                os.makedirs(f"{folder}/{part}", exist_ok=True)
        for path, _, _ in os.walk(session.path):
            os.chmod(path, 0o777)
            os.chown(path, session.uid, session.uid)
        for path, _, _ in os.walk("/tmp/evil"):
            os.chown(path, EVIL, EVIL)
        self.sockets[session.path] = self.held.enter_context(listening(f"{session.path}/sockets/raylet", session.uid))

    def _record(self, session: Session) -> None:
        """The first line of a raylet's log, with the pid in its own namespace."""
        pid = self.fact(session.raylet, PID)
        log = Path(f"{session.path}/logs/raylet.out")
        log.write_text(f"[2026-11-21 08:02:11,521 I {pid} {pid}] (raylet) main.cc:711: Setting node ID node_id={session.number:056x}\n")
        os.chown(log, session.uid, session.uid)

    def _numbers_outside(self) -> dict[int, int]:
        """By record, for processes in their own PID namespace."""
        first = {session.container for session in self.generated.sessions if session.container >= 0}
        apart = {node.at for node in self.generated.nodes if node.at in first or (node.session and node.session.container >= 0)}
        found: dict[int, int] = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError, StopIteration):
                lines = Path(f"/proc/{name}/status").read_text().splitlines()
                inner = next(line for line in lines if line.startswith("NSpid:")).split()[1:]
                record = resource.prlimit(int(name), resource.RLIMIT_MSGQUEUE)[0]
                if len(inner) > 1 and record in apart and int(inner[-1]) == self.fact(record, PID):
                    found[record] = int(name)
        return found

    def _start(self, node: Node, pid: int | None = None) -> None:
        """Starts a child of init, with this pid if one is given."""
        words = node.argv
        env = {name: self._filled(value) for name, value in node.env.items()}
        start = node.at * RECORD.size + PID * 4
        until = time.monotonic() + 20
        while time.monotonic() < until:  # an invisible process may still have this pid for a moment
            if pid is not None:
                Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
            child = os.fork()
            if child == 0:
                if pid not in (None, os.getpid()):
                    os._exit(0)
                os.setsid()
                resource.setrlimit(resource.RLIMIT_MSGQUEUE, (node.at, resource.getrlimit(resource.RLIMIT_MSGQUEUE)[1]))
                self.stage[start : start + 4] = os.getpid().to_bytes(4, sys.byteorder)
                if node.uid:
                    os.setgroups([])
                    os.setresgid(node.uid, node.uid, node.uid)
                    os.setresuid(node.uid, node.uid, node.uid)
                os.execve(ACTOR, words, env)
            if pid in (None, child):
                return
            time.sleep(0.001)
        raise WrongError(f"pid {pid} could not be had again")

    def _filled(self, text: str) -> str:
        for other in self.generated.nodes:
            text = text.replace(f"@{other.at}@", str(self.fact(other.at, PID)))
        return text

    def _end(self, nodes: Iterable[Node]) -> None:
        nodes = [node for node in nodes if node.at != LAUNCHER]
        for node in nodes:
            os.kill(self.pid(node), signal.SIGKILL)
        wait(lambda: not any(self.alive(node) for node in nodes), "those have ended", self.description)

    def _reuse(self, gone: list[Node], truth: str) -> None:
        """Starts other processes that reuse some of their pids."""
        gone = [node for node in gone if node.at not in self.outer and is_free(self.pid(node))]
        for node in self.random.sample(gone, min(len(gone), self.random.choice((0, 0, 1, 2)))):
            self._newcomer(self.random.choice((("postgres",), ("python", "train.py"))), {}, truth, self.pid(node))

    def _newcomer(self, argv: tuple[str, ...], env: dict[str, str], truth: str, pid: int | None = None, uid: int = 0) -> Node:
        new = self.generated.add(*argv, comm=argv[0].rpartition("/")[2], env=env, truth=truth, flags=SETSID, uid=uid)
        self.stage[new.at * RECORD.size : (new.at + 1) * RECORD.size] = new.packed()
        self._start(new, pid)
        wait(lambda: self.fact(new.at, READY), "the newcomer has started", self.description)
        found = read_stat(self.pid(new))
        assert found
        self.ticks[new.at] = found.ticks
        return new

    # Actions of the other user, as that user

    def _forge(self, session: Session, forgery: str) -> None:
        logs, sockets = f"{session.path}/logs", f"{session.path}/sockets"
        others = [other for other in self.generated.sessions if other is not session]
        if forgery == "pid of the raylet":
            pid = self.pid(self.generated.nodes[session.raylet])
            if session.life != "live" and session.container < 0 and is_free(pid):
                words = (
                    f"{RAY}/core/src/ray/raylet/raylet",
                    f"--session_dir={session.named_path}",
                    "--raylet_socket_name=x",
                    f"--node_id={'e' * 56}",
                )
                self._newcomer(words, {}, "keep", pid, EVIL)
            return
        with as_user(EVIL), suppress(FileNotFoundError):
            if forgery == "listener":
                self.held.enter_context(listening(f"{sockets}/raylet.9", EVIL))
            elif forgery == "sockets removed":
                os.unlink(f"{sockets}/raylet")
            elif forgery == "renamed":
                os.rename(session.path, f"{TEMP}/session_2001-01-01_00-00-00_000000_{session.number}")
            elif forgery == "logs moved" and others:
                for name in os.listdir(logs):
                    if name.startswith(("worker-", "job-driver-")):
                        os.rename(f"{logs}/{name}", f"{others[0].path}/logs/{name}")
            elif forgery == "record":
                os.unlink(f"{logs}/raylet.out")
                if others and self.random.random() < 0.5:
                    os.rename(f"{others[0].path}/logs/raylet.out", f"{logs}/raylet.out")
                    others[0].forgeries.add("record")

    # The action

    def _ended(self) -> Answer:
        request = {"act": "kill", "grace": 0.1, "force": self.random.random() < 0.1, **self._job_states(), **self._meant()}
        plan = self._ask({**request, "stage": "plan"})
        if not self._needed(self._due(request, self.generated.must_end)) <= {target["pid"] for target in plan["targets"]}:
            plan = self._ask({**request, "stage": "plan"})  # on a busy machine, a scan may find a process stuck and report it
        self._compare(plan, self._due(request, self.generated.must_end), self._due(request, self.generated.may_end))
        targets = plan["targets"]
        lost, fresh = self._meddle(targets)
        done = self._ask({**request, "stage": "do", "targets": targets})
        self._check(done, targets, lost)
        if fresh:
            again = {**request, "named": None}
            self._ask({**again, "stage": "do", "targets": self._ask({**again, "stage": "plan"})["targets"]})
            if any(self.alive(node) for node in fresh):
                raise WrongError("an orphan that came after the plan was not found by the next one")
        return {"processes": sum(1 for _ in self.generated.living()), "ended": len(done["done"]), "refused": len(done["refused"])}

    def _due(self, request: Answer, ends: Callable[[Node], bool]) -> set[int]:
        """The records of left-over processes that this user may end; if some are named, only those and their descendants."""
        left = {node.at for node in self.generated.living() if ends(node)}
        if "named" not in request:
            return {at for at in left if self.generated.nodes[at].uid == self.user}
        named = {pid for pid, _ in request["named"]}
        mine = {at for at in left if self.user in (0, self.generated.nodes[at].uid)}
        return {at for at in mine if named & set(line(self.pid(self.generated.nodes[at])))}

    def _job_states(self) -> Answer:
        reporting = [session for session in self.generated.sessions if session.reports_jobs]
        jobs = [{"session": one.name, "running": sorted(one.running_jobs), "ended": sorted(one.ended_jobs)} for one in reporting]
        if self.real and self.real.living:
            self.generated.has_silent_ray = self.random.random() < 0.3
            jobs += [] if self.generated.has_silent_ray else self.real.words()
        return {"jobs": jobs, "past": [self._past(node) for node in self.generated.living() if node.known]}

    def _past(self, node: Node) -> list[Any]:
        assert node.session
        worker, raylet = self.generated.nodes[node.worker], self.generated.nodes[node.session.raylet]
        until = int((time.time() - boot_time()) * TICKS_PER_SECOND)
        seen = [
            self.pid(worker), self.ticks[worker.at], self.pid(raylet), self.ticks[raylet.at], node.session.path, node.job, until, node.uid,
        ]  # fmt: skip
        return [self.pid(node), self.ticks[node.at], seen]

    def _meant(self) -> Answer:
        """In some rounds, a few processes of any kind are named."""
        if self.random.random() < 0.8 or self.real:
            return {}
        living = list(self.generated.living())
        return {"named": [[self.pid(node), None] for node in self.random.sample(living, min(3, len(living)))], "pids": True}

    def _compare(self, plan: Answer, must: set[int], may: set[int]) -> None:
        planned = {target["pid"] for target in plan["targets"]}
        needed, allowed = self._needed(must), {self.pid(self.generated.nodes[at]) for at in may}
        if self.real and not self.real.living:
            allowed |= {pid for pid, _ in self.real.left | self.real.hidden}
        if not needed <= planned <= allowed:
            wrong, missing = sorted(planned - allowed), sorted(needed - planned)
            why = [one for one in plan["targets"] if one["pid"] in wrong]
            raise WrongError(f"planned wrongly: {wrong} ({why}), not planned: {missing}; refused: {plan['refused']}")

    def _needed(self, must: set[int]) -> set[int]:
        """The pids of these records, and of the left-over processes of a real Ray."""
        left = {pid for pid, ticks in self.real.left if lives(pid, ticks)} if self.real and not self.real.living else set()
        return {self.pid(self.generated.nodes[at]) for at in must} | left

    def _meddle(self, targets: list[Answer]) -> tuple[set[int], list[Node]]:
        """Changes between plan and execution: some processes end, their pids are reused, and there are new orphans."""
        ended = [node for node in self.generated.living() if any(self.pid(node) == target["pid"] for target in targets)]
        ended = self.random.sample(ended, min(len(ended), self.random.choice((0, 0, 1, 2))))
        self._end(ended)
        for node in ended:
            node.dies = True
        self._reuse(ended, "keep")
        fresh = []
        dead = [one for one in self.generated.sessions if self._is_plainly_dead(one)]
        if dead and self.random.random() < 0.3 and self.user == 0:
            fresh.append(self._newcomer(("python", "late.py"), {"RAY_RAYLET_PID": f"@{dead[0].raylet}@"}, "late"))
        return {self.pid(node) for node in ended}, fresh

    def _is_plainly_dead(self, session: Session) -> bool:
        plain = session.life != "live" and session.uid == 0 and session.container < 0 and session.has_logs
        return plain and read_stat(self.pid(self.generated.nodes[session.raylet])) is None

    def _check(self, done: Answer, targets: list[Answer], lost: set[int]) -> None:
        """The planned processes that are still left over must have ended. No other process may have got a signal."""
        meant = {(target["pid"], target["ticks"]) for target in targets}
        refused = {one["pid"] for one in done["refused"]}
        for node in self.generated.living():
            planned = (self.pid(node), self.ticks[node.at]) in meant
            if planned and self.generated.must_end(node) and self.alive(node):
                raise WrongError(f"{node.argv} {self.pid(node)} is still there: {done}")
            if planned and self.alive(node) and self.pid(node) not in refused:
                raise WrongError(f"{node.argv} {self.pid(node)} was neither ended nor refused: {done}")
            if not planned and (not self.alive(node) or self.fact(node.at, SIGNALS)):
                raise WrongError(f"the wrong process was signalled ({self.fact(node.at, LAST)}): {node.argv} {self.pid(node)}: {done}")
        if not lost <= refused or done["failed"]:
            raise WrongError(f"not {sorted(lost)} were refused: {done}")
        if self.real and self.real.lost():
            raise WrongError(f"of the real Ray has ended: {sorted(self.real.lost())}: {done}")
        if self.real and not self.real.living and (alive := [one for one in self.real.left if lives(*one)]):
            raise WrongError(f"what the real Ray has left is still there: {alive}: {done}")

    def _ask(self, request: Answer) -> Answer:
        """Runs the action as a program of its own, as this user."""
        mine, its = os.pipe()
        if os.fork() == 0:
            try:
                self._perform(request, its)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(its)
        with os.fdopen(mine, "rb") as reply:
            answer: Answer = json.loads(reply.read() or b"{}")
        if "refused" not in answer:
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

    def description(self) -> str:
        """A readable description of all processes."""
        return "\n".join(self._describe(node) for node in self.generated.nodes)

    def _describe(self, node: Node) -> str:
        of = node.session
        session = (
            f"{of.name[-4:]} {of.life}{' jobs-known' if of.reports_jobs else ''} {of.way} {sorted(of.forgeries)} apart {of.container}"
            if of
            else ""
        )
        marks = f"{'dies ' if node.dies else ''}{'known ' if node.known else ''}flags {node.flags} uid {node.uid} job {node.job}"
        env = {name: self._filled(value)[:40] for name, value in node.env.items() if name != "PATH"}
        fate = self.generated.fate(node)
        who = f"{node.at}: pid {self.pid(node)} below {node.parent} {' '.join(node.argv)[-60:]!r}"
        stat = read_stat(self.pid(node))
        marks += f" parent {stat.parent} session {stat.leader} terminal {stat.terminal}" if stat else " is gone"
        return f"  {who} [{session}] {fate} {marks} {env} > {node.out[-40:]}"


@contextmanager
def as_user(uid: int) -> Iterator[None]:
    """Runs the block with the rights of this user only."""
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def listening(path: str, uid: int) -> socket.socket:
    """A socket of this user on which he listens."""
    listener = socket.socket(socket.AF_UNIX)
    with suppress(FileNotFoundError):
        os.unlink(path)
    with as_user(uid):
        listener.bind(path)
        listener.listen(64)
    return listener


def is_free(pid: int) -> bool:
    """Whether no process, process group or session has this id."""
    stats = filter(None, (read_stat(int(name)) for name in os.listdir("/proc") if name.isdigit()))
    return all(pid not in (stat.pid, stat.group, stat.leader) for stat in stats)


def line(pid: int) -> list[int]:
    """A process and its ancestors."""
    found = [pid]
    while found[-1] > 1 and (stat := read_stat(found[-1])):
        found.append(stat.parent)
    return found


def wait(fact: Callable[[], object], what: str, describe: Callable[[], str]) -> None:
    until = time.monotonic() + 60
    while not fact():
        if time.monotonic() > until:
            raise WrongError(f"it never came about that {what}\n{describe()}")
        time.sleep(0.0005)


def sweep() -> None:
    """Ends the processes of the last round; those of a real Ray are no actors, and stay."""
    while pids := [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1" and is_actor(int(name))]:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.0005)


def is_actor(pid: int) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/exe") == ACTOR
    except OSError:
        return False


def main() -> None:
    first, rounds = map(int, sys.argv[1:3])
    actor = sys.stdin.buffer.read()
    for mount in (["-t", "proc", "proc", "/proc"], ["-t", "tmpfs", "-o", "mode=1777", "rounds", "/tmp"]):
        subprocess.run(["mount", *mount], check=True)
    Path(ACTOR).write_bytes(actor)
    Path(ACTOR).chmod(0o755)
    for path in (TEMP, WAYS["mount"]):
        os.makedirs(path)
    os.chmod(TEMP, 0o777)
    os.symlink(TEMP, WAYS["link"])
    subprocess.run(["mount", "--bind", TEMP, WAYS["mount"]], check=True)
    real = RealRay(sys.argv[3]) if sys.argv[3:] else None
    subprocess.run(["ip", "link", "set", "lo", "up"], check=real is not None)
    for seed in range(first, first + rounds):
        if real is not None:
            turn(real, seed - first)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # init collects its adopted children
        tidy(real.session if real else "")
        print(json.dumps({"seed": seed, **one_round(seed, real)}), flush=True)


def turn(real: RealRay, number: int) -> None:
    """Each Ray lives for some rounds; in the round after its end, its left-over processes must be found."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if number % EACH == 0:
        real.start(sorted(WAYS.values())[number // EACH % len(WAYS)])
    elif number % EACH == EACH - 1:
        real.stop()
    else:
        real.spawn()


def tidy(kept: str) -> None:
    """Removes the generated sessions of the last round; the session of a real Ray stays."""
    shutil.rmtree("/tmp/evil", ignore_errors=True)
    for name in os.listdir(TEMP):
        if name.startswith("session_2") and name != kept:
            shutil.rmtree(f"{TEMP}/{name}", ignore_errors=True)


def one_round(seed: int, real: RealRay | None = None) -> Answer:
    with ExitStack() as held:
        round_ = Round(seed, held, real)
        try:
            return round_.play()
        except WrongError as wrong:
            return {"wrong": str(wrong), "forest": round_.description()}
        finally:
            sweep()


if __name__ == "__main__":
    Path("/proc/self/comm").write_text("tini")  # orphans become its children: under another name it would count as their parent
    main()
