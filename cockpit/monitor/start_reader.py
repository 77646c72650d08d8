"""Reads, in the background, why actors that have a place don't start: from the logs of their nodes, and from the stack of a constructor."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec.structs import replace

from cockpit.failures.log_lines import MAX_LINE_CHARS
from cockpit.findings.failures import reason_of
from cockpit.findings.port_ranges import Ranges, count_ports, full_raylets, worker_ports, write_ranges
from cockpit.findings.waiting import WAITING_STATES
from cockpit.model import SUPERVISOR, Actor, Failure, Job, Node, PlacementGroup, Process, Snapshot, StartTrouble, StuckProcess
from cockpit.monitor.log_folder import LogFolder
from cockpit.monitor.logs import LogFinder
from cockpit.monitor.poller import Poller
from cockpit.monitor.reading import Reading
from cockpit.monitor.start_logs import (
    MAX_BUILD_S,
    build_age,
    build_of,
    find_early_death,
    find_package,
    find_words,
    has_no_port,
    read_builds,
    read_starts,
    shown,
    words_of,
    workers_of,
)
from cockpit.sources.probes.decode import StackFrame, StackThread
from cockpit.sources.ray.log_names import PART_GLOB, part_logs, without_others, worker_logs
from cockpit.sources.source import SourceError, wait_within
from cockpit.text import clean, plural

ASK_AFTER_S: Final = 30.0
"""Seconds that an actor has waited before its node's logs are read."""
AGAIN_AFTER_S: Final = 30.0
STACK_AFTER_S: Final = 60.0
"""Seconds that a constructor has run before its stack is read: that starts py-spy on its host, which does not stop the process."""
UNREGISTERED_AFTER_S: Final = 20.0
"""Seconds that a worker has run without registering before its stack is read: Ray ends it after 60 s and starts another one."""
MAX_STACKS: Final = 2
"""Constructors of which the stacks are read; the others mostly stand at the same place."""
READ_TIMEOUT_S: Final = 20.0
"""For all logs of one question."""
MAX_NODES: Final = 4
MAX_QUESTIONS: Final = 8
"""Jobs with actors that don't start, of which the logs are read; the newest wait first."""
MAX_WORKERS: Final = 3
"""Workers of a job on a node whose logs are read; mostly they fail for the same reason."""
MAX_BYTES: Final = 1 << 20
"""Read from the end of one log."""
RAYLET_LINES, ERR_LINES, SETUP_LINES, AGENT_LINES, WORKER_LINES = 2000, 100, 400, 600, 400
"""Read from the end of each log."""
MAY_NEED_A_WORKER: Final = ("starting", "room", None)
"""Waits that a missing worker process can explain."""
MAIN_FILES: Final = ("_private/worker.py", "default_worker.py")
"""Of Ray: the main thread of a worker runs one of them."""
ReadStack = Callable[[Process], Awaitable[tuple[StackThread, ...]]]


class StartQuestion(msgspec.Struct, frozen=True):
    """Actors of one job that wait for their workers on the same nodes."""

    job: str
    """8 hex digits, as in the names of the logs."""
    actors: tuple[Actor, ...]
    nodes: tuple[str, ...]
    """Where they may be started; the ids of nodes."""
    submitted: Job | None = None
    """Of a job's supervisor: that job."""
    is_alone: bool = True
    """Whether no other supervisor waits: the workers of all supervisors look alike."""
    process: Process | None = None
    """The process whose constructor runs; `None`: no worker of it is known yet."""
    is_single_look: bool = False

    @property
    def id(self) -> tuple[str, ...]:
        """Equal for the same wait at another time."""
        pid = f"{self.process.pid}" if self.process else ""
        return (self.job, self.submitted.id if self.submitted else "", pid, *self.nodes)


class StartReader:
    """Answers one question at a time, that of the newest wait first, and each again while the wait lasts."""

    def __init__(self, poller: Poller, logs: LogFinder, read_stack: ReadStack) -> None:
        self._poller, self._logs, self._read_stack = poller, logs, read_stack
        self._questions: dict[tuple[str, ...], StartQuestion] = {}
        self._answers: dict[tuple[str, ...], StartTrouble] = {}
        self._due: dict[tuple[str, ...], float] = {}
        """When a question may be asked again; without an entry it was never asked."""
        self._cluster: str | None = None
        self._reading = Reading()

    def on_snapshot(self, snapshot: Snapshot, waited_s: float = ASK_AFTER_S) -> None:
        """Forget waits that are over, and read the logs of one that is due."""
        if snapshot.cluster.session != self._cluster:
            self.close()
            self._cluster, self._answers, self._due = snapshot.cluster.session, {}, {}
        self._questions = {question.id: question for question in find_questions(snapshot, self._worker_places(), waited_s)}
        self._answers = {key: answer for key, answer in self._answers.items() if key in self._questions}
        self._due = {key: due for key, due in self._due.items() if key in self._questions}
        self._publish()
        now = self._poller.clock()
        due = [question for key, question in self._questions.items() if self._due.get(key, 0.0) <= now]
        if due and not self._reading.is_running:
            self._reading.start(self._read_all(due))

    async def read_once(self, patience: float) -> None:
        """Read the logs for the newest snapshot, but at most `patience` seconds. A single sample knows no waiting times."""
        self.on_snapshot(self._poller.snapshot, 0.0)
        await self._reading.finish(patience)

    def close(self) -> None:
        """Stop reading."""
        self._reading.cancel()

    def _worker_places(self) -> dict[str, tuple[str, int]]:
        facts = self._poller.parts.nodes
        return {worker.actor: (worker.node, worker.pid) for worker in (facts.workers if facts else ()) if worker.actor}

    def _publish(self) -> None:
        found = [(answer, self._questions[key]) for key, answer in self._answers.items() if key in self._questions]
        self._poller.set_starts(tuple(replace(answer, about=tuple(actor.key for actor in question.actors)) for answer, question in found))

    async def _read_all(self, due: Sequence[StartQuestion]) -> None:
        for question in due:
            self._due[question.id] = self._poller.clock() + AGAIN_AFTER_S  # also after an unexpected error, so that the others come next
            answer = None
            with suppress(SourceError, asyncio.TimeoutError):  # without an answer Ray's reason stays
                answer = await wait_within(READ_TIMEOUT_S, self._answer(question))
            self._answers.pop(question.id, None)
            if answer is not None:
                self._answers[question.id] = answer
            self._publish()

    async def _answer(self, question: StartQuestion) -> StartTrouble | None:
        snapshot = self._poller.snapshot
        if (lost := _why_lost(question, snapshot.failures)) is not None:
            return lost
        if (process := question.process) is not None:
            host = clean(snapshot.index.titles.of_host(process.host))
            where = f"its constructor is running on {host}, pid {process.ns_pid or process.pid}"
            return await self._where_it_stands(question, process, where, snapshot)
        answers: list[StartTrouble] = []
        for node in (snapshot.index.nodes.get(each) for each in question.nodes):
            if node is None:
                continue
            try:
                found = await self._of_node(question, node, snapshot)
            except SourceError:
                continue  # another node may be readable
            if found is not None:
                answers.append(found)
        answers.sort(key=lambda answer: not answer.fails)
        return answers[0] if answers else _without_ports(question, snapshot)

    async def _of_node(self, question: StartQuestion, node: Node, snapshot: Snapshot) -> StartTrouble | None:
        """What the logs of one node show: workers that fail, then a runtime environment that is not ready."""
        folder, title = self._logs.folder(node), clean(snapshot.index.titles.of_node(node))
        parts = await folder.names(PART_GLOB)
        own = await folder.raylet_log(parts, node.id or "")
        names = without_others(parts, own) if own else parts
        out = [line for name in part_logs(names, "raylet", "out")[:1] for line in await _read_end(folder, name, RAYLET_LINES)]
        err = [line for name in part_logs(names, "raylet", "err")[:1] for line in await _read_end(folder, name, ERR_LINES)]
        starts = read_starts(out, err)

        files = await folder.names(f"worker-*-{question.job}-*")
        facts = self._poller.parts.nodes
        registered = [worker.pid for worker in (facts.workers if facts else ()) if worker.node == node.id]
        workers = workers_of(starts, files, question.job, registered)
        for worker, logs in workers[:MAX_WORKERS]:
            lines: list[str] = []
            for name in logs:
                lines += await _read_end(folder, name, WORKER_LINES)
            if has_no_port(lines, starts):
                return _no_port(title, worker_ports(snapshot.index.hosts_by_node.get(node.id or ""), node.id))
            if not question.is_alone or worker.is_dead is None or not starts.is_recent(worker.judged):
                continue  # it may have registered, worked and ended
            if worker.is_dead:
                deaths = sum(1 for other, _ in workers if other.is_dead and starts.is_recent(other.judged))
                return _dying(title, await asyncio.to_thread(find_words, lines), deaths, worker.pid)
            text = f"its worker process on {title} (pid {worker.pid}) had not registered with Ray after a minute, and was running then"
            return StartTrouble((), text, f"read worker-*-{worker.pid}.err and raylet.out in the logs folder of the session on {title}")

        begun = [
            one
            for one in snapshot.processes or ()
            if one.kind == "worker" and one.node == node.id and one.job == question.job and one.ours is not False and one.ticks is not None
            if (one.ns_pid or one.pid) not in registered and snapshot.taken - (one.started or snapshot.taken) >= UNREGISTERED_AFTER_S
        ]
        if begun and question.is_alone:
            where = f"its worker process on {title}, pid {begun[0].ns_pid or begun[0].pid}, is not ready for Ray yet"
            if (standing := await self._where_it_stands(question, begun[0], where, snapshot)) is not None:
                return standing

        setup = f"runtime_env_setup-{question.job}.log"
        builds = read_builds(await _read_end(folder, setup, SETUP_LINES)) if setup in parts else []
        job = question.submitted or snapshot.index.jobs.get(question.job)
        environment = job.runtime_env if job else None
        build = build_of(builds, environment)
        if build is None and question.submitted is None and len(builds) == 1:
            # An actor may have an environment of its own; the log is that of its job.
            is_old = build_age(builds[0], starts) > MAX_BUILD_S
            build = None if is_old else builds[0]
        if build is not None and build.command is None and build.failed is not None and not starts.is_recent(build.failed):
            build = None
        if build is not None and build.error is not None:
            again = ", and runs again" if build.command else ""
            times = f" ({plural(build.failures, 'time')}{again})"
            text = f"{build.tool} failed to build its runtime environment on {title}{times}: {build.error}"
            return StartTrouble((), text, f"correct its runtime_env; {setup} on {title} has the whole output", fails=True)
        if build is not None:
            last = f' after "{build.last_line}"' if build.last_line else ""
            text = (
                f"its runtime environment is being built on {title}: {words_of(build)} has written nothing{last} "
                f"since {build.clock} by that host's clock"
            )
            remedy = f"see whether its package index answers from {title}; {setup} there has what it has done"
            return StartTrouble((), text, remedy, silent_since=snapshot.taken - build_age(build, starts))
        agent = part_logs(names, "runtime_env_agent", "log")[:1] if environment else []
        agent_lines = [line for name in agent for line in await _read_end(folder, name, AGENT_LINES)]
        # Long lines take a second, in which nothing would be drawn.
        package = await asyncio.to_thread(find_package, agent_lines, environment)
        if package is not None:
            uri, source = shown(package.uri), f"see whether {title} reaches its source; runtime_env_agent.log there has all errors"
            if package.error:
                text = f"its package {uri} can't be fetched on {title} ({plural(package.failures, 'time')}): {package.error}"
                return StartTrouble((), text, source, fails=True)
            text = f"its package {uri} is not ready on {title}: it is fetched or unpacked since {package.clock} by that host's clock"
            return StartTrouble((), text, source)
        have = [log.pid for log in worker_logs(await folder.names("worker-*.err"))] if any(one.is_dead for one in starts.workers) else []
        if question.is_alone and (early := await asyncio.to_thread(find_early_death, starts, err, have)) is not None:
            words, times_dead = early
            many = f" ({plural(times_dead, 'worker')} lately)" if times_dead > 1 else ""
            text = f"worker processes on {title} die before they register with Ray{many}: {words}"
            return StartTrouble((), text, f"correct what raylet.err in the logs folder of the session on {title} shows", fails=True)
        return None

    async def _where_it_stands(self, question: StartQuestion, process: Process, where: str, snapshot: Snapshot) -> StartTrouble | None:
        """What a process that starts waits for, by its stack; `where` begins the sentence."""
        host = snapshot.hosts.get(process.host)
        stuck = next((one for one in (host.stuck or () if host else ()) if (one.pid, one.ticks) == (process.pid, process.ticks)), None)
        if stuck is not None:
            text = f"{where}, and waits in the kernel (D state){_waits_for(stuck)}"
            return StartTrouble((), text, "see whether that file system answers (`df` on that path hangs if not)")
        if question.is_single_look:
            return None  # a start that has just begun needs no program that reads its stack
        place = describe_stack(await self._read_stack(process))
        again = f"`py-spy dump --pid {process.pid}`"
        remedy = f"look at its stack again ({again}); if it reads files from a slow file system, put them on a disk of its host"
        return StartTrouble((), f"{where}, {place}", remedy) if place else None


def find_questions(snapshot: Snapshot, places: dict[str, tuple[str, int]], waited_s: float) -> Iterator[StartQuestion]:
    """The waits for workers, the newest first, at most `MAX_QUESTIONS`. `places`: node and pid of actors that have a process."""
    nodes = {node.id: node for node in snapshot.nodes or () if node.id and node.state == "ALIVE"}
    groups = {group.id: group for group in snapshot.placement_groups or ()}
    pending = {job.submission: job for job in snapshot.jobs or () if job.status == "PENDING" and job.submission}
    alike: dict[tuple[str, str, int | None, tuple[str, ...]], list[Actor]] = {}
    waiting = [
        actor
        for actor in snapshot.actors or ()
        if actor.state in WAITING_STATES
        and actor.state != "DEPENDENCIES_UNREADY"
        and actor.wait in MAY_NEED_A_WORKER
        and actor.job
        and (waited_s == 0.0 or (actor.since is not None and snapshot.taken - actor.since >= waited_s))
    ]
    for actor in sorted(waiting, key=lambda actor: -(actor.since or 0.0)):
        name = actor.name.removeprefix(SUPERVISOR) if actor.internal and actor.name.startswith(SUPERVISOR) else ""
        if actor.internal and name not in pending:
            continue
        place = places.get(actor.id) if actor.state == "PENDING_CREATION" else None
        at = _nodes_of(actor, place[0] if place else None, nodes, groups.get(actor.placement_group or ""))
        # A constructor that runs is a question of its own.
        alike.setdefault((actor.job or "", name, place[1] if place else None, at), []).append(actor)
    supervisors = Counter(job for job, name, *_ in alike if name)
    long = STACK_AFTER_S if waited_s else 0.0
    constructors = [key for key in alike if key[2] is not None and snapshot.taken - (alike[key][0].since or snapshot.taken) >= long]
    asked = [*(key for key in alike if key[2] is None), *constructors[:MAX_STACKS]]
    for job, name, pid, at in asked[:MAX_QUESTIONS]:
        actors = alike[job, name, pid, at]
        process = None
        if pid is not None:
            process = next((one for one in snapshot.processes or () if (one.ns_pid or one.pid) == pid and one.node in at), None)
            if process is None or process.ticks is None or process.ours is False:
                continue  # only a probe can read its stack
        is_alone = not name or supervisors[job] == 1
        yield StartQuestion(
            job, tuple(actors), at, submitted=pending.get(name), is_alone=is_alone, process=process, is_single_look=not waited_s
        )


def _nodes_of(actor: Actor, home: str | None, nodes: dict[str, Node], group: PlacementGroup | None) -> tuple[str, ...]:
    """The ids of the nodes on which it may be started, at most `MAX_NODES`; `home`: where its process runs."""
    if home or (actor.node in nodes and actor.node):
        return (home or actor.node or "",)
    if group is not None:
        bundles = group.bundles if actor.bundle is None else group.bundles[actor.bundle : actor.bundle + 1]
        return tuple(dict.fromkeys(bundle.node for bundle in bundles if bundle.node in nodes and bundle.node))[:MAX_NODES]
    # Ray places supervisors on the head, unless the job says otherwise.
    heads = tuple(node for node in nodes if nodes[node].head) if actor.internal else ()
    return (heads or tuple(nodes))[:MAX_NODES]


def _why_lost(question: StartQuestion, failures: Sequence[Failure]) -> StartTrouble | None:
    """Of an actor that is started again: how often, and why its last process died, if its log was read."""
    read = {failure.about: failure for failure in failures if failure.unread is None}
    for actor in question.actors:
        if actor.state == "RESTARTING" and actor.restarts and (failure := read.get(actor.key)) is not None:
            reason = reason_of(failure) or ("its log shows no error" if failure.file else "no log of it was found")
            text = f"its process has died {plural(actor.restarts, 'time')} and is started again: {reason}"
            return StartTrouble((), text, failure.remedy, fails=True)
    return None


def _no_port(title: str, ranges: Ranges) -> StartTrouble:
    if ranges:
        ports = plural(count_ports(ranges), "worker port")
        text = f"node {title} has {ports} ({write_ranges(ranges)}) and all are taken"
    else:
        text = f"node {title} has no free port for another worker"
    remedy = f"start Ray on {title} again with a wider range (`--min-worker-port`, `--max-worker-port`)"
    return StartTrouble((), text, remedy, fails=True)


def _without_ports(question: StartQuestion, snapshot: Snapshot) -> StartTrouble | None:
    """By the processes on probed hosts: no node on which it may start has a port left."""
    full = full_raylets(snapshot)
    living = [node for node in snapshot.nodes or () if node.id and node.state == "ALIVE"]
    if not question.nodes or not all(node in full for node in question.nodes) or len(living) > MAX_NODES:
        return None
    first = snapshot.index.nodes[question.nodes[0]]
    return _no_port(clean(snapshot.index.titles.of_node(first)), full[question.nodes[0]])


def _dying(title: str, words: str | None, deaths: int, pid: int) -> StartTrouble:
    times = f"{plural(deaths, 'worker')} for it have died" if deaths > 1 else "its worker has died"
    text = f"{times} on {title} before Ray could use {'them' if deaths > 1 else 'it'}: {words or f'pid {pid} wrote no reason'}"
    remedy = f"correct what its log shows: worker-*-{pid}.err in the logs folder of the session on {title}"
    return StartTrouble((), text, remedy, fails=True)


def _waits_for(stuck: StuckProcess) -> str:
    if stuck.mount is None:
        return f" in {clean(stuck.waits_in)}" if stuck.waits_in else ""
    doubt = "" if stuck.certain else ", probably"
    return f" for {clean(stuck.mount)} ({clean(stuck.kind or 'file system')}){doubt}"


def describe_stack(threads: Sequence[StackThread]) -> str | None:
    """`it imports torch (torch/__init__.py:12)` or `it is in load (train.py:8)`; `None`: no thread runs a constructor."""
    for thread in threads:
        frames = thread.frames
        if not any(frame.name == "main_loop" or frame.file.endswith(MAIN_FILES) for frame in frames):
            continue
        importing = [number for number, frame in enumerate(frames) if frame.name in ("_find_and_load", "_load_unlocked")]
        if importing:
            inner = next((frame for frame in frames if not frame.file.startswith("<frozen")), None)
            outer = next((frame for frame in frames[importing[-1] :] if not frame.file.startswith("<frozen")), None)
            if outer is None:
                return None
            return f"and imports a module at {_frame(outer)}" + (f", now at {_frame(inner)}" if inner and inner != outer else "")
        if frames:
            return f"now in {shown(frames[0].name)} at {_frame(frames[0])}"
    return None


def _frame(frame: StackFrame) -> str:
    return shown(f"{'/'.join(frame.file.split('/')[-2:])}:{frame.line}")


async def _read_end(folder: LogFolder, name: str, lines: int) -> list[str]:
    """The last lines of a file, each cut to `MAX_LINE_CHARS`."""
    return [line[:MAX_LINE_CHARS] for line in await folder.read_end(name, lines, MAX_BYTES)]
