"""Defines the tools of an agent: their names, arguments and descriptions, and what each of them answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from cockpit.agents.answers import Page, write_answer
from cockpit.agents.facts import (
    NotFoundError,
    explanation,
    find_finding,
    find_job,
    find_node,
    finding_row,
    gpu_row,
    is_on,
    job_facts,
    node_facts,
    process_row,
    rank_row,
    ranks_in_order,
    seconds_since,
    state,
    unknown_waits,
    waiting_rows,
)
from cockpit.agents.logs import LogReader, real_name
from cockpit.agents.past import Past, event_row
from cockpit.agents.plans import PLANNABLE, PlanRequest, Plans, write_plan
from cockpit.check.preset import sample_and_check
from cockpit.check.result_text import needs_line, verdict
from cockpit.cli.check import preset_of
from cockpit.config.address import explain_choices
from cockpit.findings.rank_words import unseen_words
from cockpit.model import LEVELS, Actor, Job, Kind, Process, Snapshot
from cockpit.model.about import find_things
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.presets import PresetError, presets
from cockpit.report.snapshot_text import hosts_probed
from cockpit.report.stacks import is_idle
from cockpit.sources.probes.decode import StackThread
from cockpit.sources.source import SourceError

MAX_STACKS: Final = 16
"""Processes whose stacks one call reads: each read starts a program on its host."""
STACKS_AT_ONCE: Final = 4
MAX_CALLS: Final = 14
"""The innermost calls of a thread."""
FIRST_ANSWER_S: Final = 10.0
"""A tool waits so long for sources that have not answered since the server was started."""

Name = Annotated[str, Meta(max_length=300)]
Start = Annotated[int, Meta(ge=0, description="Index of the first row, from `next` of the answer before.")]


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of a tool. The text below each class name is the description that an agent reads."""


class StatusArguments(Arguments, frozen=True):
    """The whole cluster now, to start with: findings (worst first), running jobs with phase, nodes, GPUs, what waits and is left over.

    Also failing sources. Sizes are bytes, `_s` is seconds.
    """


class FindingsArguments(Arguments, frozen=True):
    """Everything that is wrong now, worst first: id, code, one sentence with its numbers, how long (s), what helps."""

    level: Annotated[Literal["info", "warning", "critical"] | None, Meta(description="Only this level or worse.")] = None
    start: Start = 0


class ExplainArguments(Arguments, frozen=True):
    """One finding: its evidence, its remedy, what it is about, and the calls to make next (`look_next`)."""

    finding: Annotated[Name, Meta(description="`id` of a finding, or its code if only one has it.")]


class JobArguments(Arguments, frozen=True):
    """One job: status, why it failed (the first error of its logs), phase, steps, who waits for whom, groups, GPU-hours.

    Then its ranks, those behind first.
    """

    job: Annotated[Name, Meta(description="Id of the job, such as ppo-7b or 02000000.")]
    start: Start = 0


class WaitingArguments(Arguments, frozen=True):
    """What waits for a place or to start: actors, placement groups, jobs, tasks; each with its needs, the reason and the time (s)."""

    start: Start = 0


class ProcessesArguments(Arguments, frozen=True):
    """Processes of Ray, of its jobs and on GPUs, most GPU memory (bytes) first: owner, kind and what proves the kind.

    `orphan` and `stale` are left over from a dead Ray.
    """

    host: Annotated[Name | None, Meta(description="Only on this node or host.")] = None
    kind: Annotated[Kind | Literal["left_over"] | None, Meta(description="left_over: orphan or stale.")] = None
    job: Annotated[Name | None, Meta(description="Only of this job.")] = None
    pid: int | None = None
    with_gpu: Annotated[bool, Meta(description="Only those that hold GPU memory.")] = False
    start: Start = 0


class NodeArguments(Arguments, frozen=True):
    """One node: memory (bytes) and the line at which Ray kills workers, disks, and its GPUs with the processes that hold them."""

    node: Annotated[Name, Meta(description="Name, address or id of the node.")]
    start: Start = 0


class LogsArguments(Arguments, frozen=True):
    """The last lines of a log; with `search` the lines that have a text; with `line` those around a line."""

    target: Annotated[Name, Meta(description="Job id; actor id, name or class; pid; or node.")]
    host: Annotated[Name | None, Meta(description="Node, if several have that pid or actor.")] = None
    log: Annotated[Name | None, Meta(description="out, err, out-before, err-before, job, or a file such as raylet.err.")] = None
    search: Annotated[Name | None, Meta(description="Lines with this text; case is ignored, `a|b` finds either.")] = None
    line: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="The lines around this number.")] = None
    start: Start = 0


class StacksArguments(Arguments, frozen=True):
    """Python stacks of a target's processes as they are now, for something that hangs: equal ones folded, the rarest first.

    At most 16 processes.
    """

    target: Annotated[Name, Meta(description="Job id, actor id or name, pid, or id of a finding.")]
    host: Annotated[Name | None, Meta(description="Node, if several have that pid.")] = None
    start: Start = 0


class HistoryArguments(Arguments, frozen=True):
    """From the recording: the state `at` a moment, or what began, got worse and ended between `begin` and `end`."""

    at: Annotated[Name | None, Meta(description="The state then: 03:10, -20m, 2026-11-23T03:10:00+0100.")] = None
    begin: Annotated[Name | None, Meta(description="Changes from then on. Default: -1h.")] = None
    end: Annotated[Name | None, Meta(description="Changes until then. Default: now.")] = None
    start: Start = 0


class CheckArguments(Arguments, frozen=True):
    """Whether a command or a preset would fit: now, later, never or unknown; which GPUs it needs, and what to change."""

    command: Annotated[Annotated[str, Meta(max_length=20_000)] | None, Meta(description="A command as it would be submitted.")] = None
    preset: Annotated[Name | None, Meta(description="Name of a preset.")] = None
    start: Start = 0


class PlanArguments(Arguments, frozen=True):
    """What an action would do, exactly: targets, refusals, which live work ends. It changes nothing."""

    finding: Annotated[Name | None, Meta(description="Plan the action that mends this finding.")] = None
    action: Annotated[Literal[tuple(PLANNABLE)] | None, Meta(description="Without `finding`.")] = None  # type: ignore[valid-type]
    hosts: Annotated[tuple[Name, ...], Meta(max_length=200, description="Only these hosts. kill, terminate and pids: one host.")] = ()
    id: Annotated[Name | None, Meta(description="Of the job, actor, placement group, node or pod.")] = None
    pids: Annotated[tuple[Annotated[int, Meta(ge=2)], ...], Meta(max_length=500, description="kill, terminate, kill-orphans.")] = ()
    session: Annotated[Name | None, Meta(description="stop: which Ray session. clean: only this dead one.")] = None
    everything: Annotated[bool, Meta(description="stop: every Ray on the hosts.")] = False
    force: Annotated[bool, Meta(description="SIGKILL at once.")] = False
    older_than_s: Annotated[Annotated[float, Meta(ge=0)] | None, Meta(description="clean: seconds.")] = None
    preset: Annotated[Name | None, Meta(description="launch: name of a preset.")] = None
    show: Annotated[Name | None, Meta(description="Show this plan again instead, with `start`.")] = None
    start: Start = 0


class PerformArguments(Arguments, frozen=True):
    """Carry out a plan after a person has agreed: they see the exact plan and your reason. It waits for them."""

    plan: Annotated[Name, Meta(description="`plan` of the answer of the tool plan, at most 60 s old.")]
    reason: Annotated[str, Meta(min_length=1, max_length=300, description="Why; the person who must agree reads it as your words.")]


class Tool(msgspec.Struct, frozen=True):
    """A tool, as a client lists it."""

    name: str
    arguments: type[Arguments]
    changes: bool = False

    @property
    def description(self) -> str:
        """What it answers."""
        return " ".join((self.arguments.__doc__ or "").split())

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments, short: every session of an agent pays for it."""
        _, parts = msgspec.json.schema_components([self.arguments])
        properties = {name: _shorten(part) for name, part in parts[self.arguments.__name__]["properties"].items()}
        required = parts[self.arguments.__name__]["required"]
        return {"type": "object", "properties": properties, **({"required": required} if required else {}), "additionalProperties": False}


def _shorten(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Without defaults and limits of lengths, and without `null`: an argument that is not given is left out."""
    short = {name: value for name, value in schema.items() if name not in ("default", "maxLength", "maxItems", "anyOf")}
    branches = [branch for branch in schema.get("anyOf", ()) if branch.get("type") != "null"]
    if values := [value for branch in branches for value in branch.get("enum", ())]:
        return {**short, "enum": values}
    for branch in branches:
        short.update(_shorten(branch))
    if "items" in short:
        short["items"] = _shorten(short["items"])
    return short


TOOLS: Final = (
    Tool("status", StatusArguments),
    Tool("findings", FindingsArguments),
    Tool("explain", ExplainArguments),
    Tool("job", JobArguments),
    Tool("why_waiting", WaitingArguments),
    Tool("processes", ProcessesArguments),
    Tool("node", NodeArguments),
    Tool("logs", LogsArguments),
    Tool("stacks", StacksArguments),
    Tool("history", HistoryArguments),
    Tool("check", CheckArguments),
    Tool("plan", PlanArguments),
)
PERFORM: Final = Tool("perform", PerformArguments, changes=True)


class Toolbox:
    """Answers the calls of one agent, from one monitor."""

    def __init__(
        self, monitor: ClusterMonitor, past: Past, plans: Plans | None, why_no_plans: str = "", *, can_perform: bool = False
    ) -> None:
        """Without `plans` nothing can even be planned, as with `--readonly`. Without `can_perform` plans are only shown."""
        self._monitor, self._past, self.plans, self._why_no_plans = monitor, past, plans, why_no_plans
        self.can_perform = can_perform and plans is not None
        self._has_facts = False
        self._log_reader = LogReader(monitor)
        self._answers: Mapping[str, Callable[[Any], Awaitable[str]]] = {tool.name: getattr(self, f"_{tool.name}") for tool in TOOLS}

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that it offers; nothing in the cluster changes the list."""
        return (*TOOLS, PERFORM) if self.can_perform else TOOLS

    def read_arguments(self, name: str, arguments: Mapping[str, Any] | None) -> Any:
        """The typed arguments of a tool. Raises `SourceError`."""
        tool = next((tool for tool in self.tools if tool.name == name), None)
        if tool is None:
            only = " This server only reads: it was started without --allow-actions." if name == PERFORM.name else ""
            raise SourceError(f"there is no such tool; there are: {', '.join(tool.name for tool in self.tools)}.{only}")
        try:
            return msgspec.convert(dict(arguments or {}), tool.arguments, strict=False)  # some agents write numbers as texts
        except msgspec.ValidationError as error:
            raise SourceError(str(error)) from None

    async def answer(self, name: str, arguments: Any) -> str:
        """The answer of a tool that changes nothing, as JSON. Raises `SourceError` and `InputError`."""
        await self.wait_for_facts()
        return await self._answers[name](arguments)

    async def wait_for_facts(self) -> None:
        """Wait until every source has answered once, and raise `SourceError` if a person must choose between several Rays."""
        if not self._has_facts:
            await self._monitor.wait_until_complete(FIRST_ANSWER_S)
            self._monitor.poller.rejoin()  # the last snapshot may be older than the last answer
            self._has_facts = True
        if self._monitor.open_choices:
            raise SourceError(f"{explain_choices(self._monitor.open_choices)}: a person must start this server with it")

    @property
    def _snapshot(self) -> Snapshot:
        return self._monitor.poller.snapshot

    def _age(self) -> dict[str, Any]:
        """Of old facts, how old they are; each source polls every few seconds."""
        age = seconds_since(self._snapshot.taken, self._monitor.clock())
        return {"age_s": age} if age and age > 10 else {}

    async def _status(self, _: StatusArguments) -> str:
        return write_answer({**self._age(), **state(self._snapshot)})

    async def _findings(self, asked: FindingsArguments) -> str:
        snapshot = self._snapshot
        levels = LEVELS[: LEVELS.index(asked.level) + 1] if asked.level else LEVELS
        found = [finding for finding in snapshot.findings if finding.level in levels]
        page = Page("findings", found, lambda finding: finding_row(finding, snapshot.taken), asked.start)
        return write_answer({**self._age(), "count": len(found)}, page)

    async def _explain(self, asked: ExplainArguments) -> str:
        snapshot = self._snapshot
        return write_answer({**self._age(), **explanation(find_finding(asked.finding, snapshot), snapshot)})

    async def _job(self, asked: JobArguments) -> str:
        snapshot = self._snapshot
        job = find_job(real_name(asked.job, snapshot), snapshot)
        head, status = job_facts(job, snapshot, self._monitor.poller.usage.of_job(job))
        if asked.start:
            head = {"job": head["job"]}
        page = Page("ranks", ranks_in_order(status), lambda rank: rank_row(rank, snapshot.taken), asked.start)
        return write_answer({**self._age(), **head, "not_seen": unseen_words(job, snapshot) or None}, page)

    async def _why_waiting(self, asked: WaitingArguments) -> str:
        rows = waiting_rows(self._snapshot)
        head = {**self._age(), "count": len(rows), "unknown": unknown_waits(self._snapshot) or None}
        return write_answer(head, Page("waiting", rows, dict, asked.start))

    async def _processes(self, asked: ProcessesArguments) -> str:
        snapshot = self._snapshot
        if snapshot.processes is None:
            raise SourceError("the processes are unknown: no probe has answered")
        job = find_job(real_name(asked.job, snapshot), snapshot) if asked.job else None

        def is_meant(process: Process) -> bool:
            return (
                (asked.host is None or is_on(process, asked.host, snapshot))
                and (asked.kind is None or (process.left_over if asked.kind == "left_over" else process.kind == asked.kind))
                and (job is None or (job.job is not None and process.job == job.job))
                and asked.pid in (None, process.pid)
                and (bool(process.gpus) or not asked.with_gpu)
            )

        found = sorted(filter(is_meant, snapshot.processes), key=lambda process: -(process.gpu_memory or 0))
        page = Page("processes", found, lambda process: process_row(process, snapshot), asked.start)
        return write_answer({**self._age(), "count": len(found), "looked_at": hosts_probed(snapshot)}, page)

    async def _node(self, asked: NodeArguments) -> str:
        snapshot = self._snapshot
        node = find_node(real_name(asked.node, snapshot), snapshot)
        head = {"node": snapshot.index.titles.of_node(node)} if asked.start else node_facts(node, snapshot)
        gpus = snapshot.index.machine(node).gpus or ()
        return write_answer({**self._age(), **head}, Page("gpus", gpus, lambda gpu: gpu_row(gpu, node, snapshot), asked.start))

    async def _logs(self, asked: LogsArguments) -> str:
        return await self._log_reader.answer(asked.target, asked.host, asked.log, asked.search, asked.line, asked.start)

    async def _stacks(self, asked: StacksArguments) -> str:
        processes = self._processes_of(asked.target, asked.host)
        found: dict[tuple[str, ...], list[str]] = {}
        errors: dict[str, list[str]] = {}
        slots = asyncio.Semaphore(STACKS_AT_ONCE)

        async def read(process: Process) -> None:
            title = f"{self._snapshot.index.place_title(process)} pid {process.pid}"
            try:
                async with slots:
                    found.setdefault(_busy(await self._monitor.stack(process)), []).append(title)
            except SourceError as error:
                errors.setdefault(str(error), []).append(title)

        await asyncio.gather(*map(read, processes[:MAX_STACKS]))
        groups = sorted(found.items(), key=lambda pair: len(pair[1]))
        unread = [f"{len(titles)} ({', '.join(titles[:3])}): {error}" for error, titles in errors.items()]
        if len(processes) > MAX_STACKS:
            unread.append(f"{len(processes) - MAX_STACKS} more processes: give a pid with host, or an actor")
        job = next((job for job in self._snapshot.jobs or () if asked.target in (job.id, job.job)), None)
        not_seen = unseen_words(job, self._snapshot) if job is not None else ""
        head = {"processes": len(processes), "not_read": unread or None, "not_seen": not_seen or None}

        def row(group: tuple[tuple[str, ...], list[str]]) -> Mapping[str, Any]:
            threads, titles = group
            return {"count": len(titles), "processes": titles[:8], "threads": list(threads) or "all its threads wait for work"}

        return write_answer(head, Page("stacks", groups, row, asked.start))

    def _processes_of(self, target: str, host: str | None) -> list[Process]:
        """The processes of a finding, job, actor or pid: of a job those with GPUs, else its workers and driver. Raises `NotFoundError`."""
        snapshot = self._snapshot
        name = real_name(target, snapshot)
        listed = [process for process in snapshot.processes or () if host is None or is_on(process, host, snapshot)]
        things: list[Any] = [job for job in snapshot.jobs or () if name in (job.id, job.job)]
        things = things or [actor for actor in snapshot.actors or () if name in (actor.id, actor.name, actor.class_)]
        things = things or [process for process in listed if target == str(process.pid)]
        if not things and not target.isdigit():
            things = find_things(find_finding(target, snapshot), snapshot)
        found: list[Process] = []
        for thing in things:
            if isinstance(thing, Process):
                found.append(thing)
            elif isinstance(thing, Job):
                own = [process for process in listed if thing.job and process.job == thing.job]
                found += [process for process in own if process.gpus] or [
                    process for process in own if process.kind in ("worker", "driver")
                ]
            elif isinstance(thing, Actor):
                found += [process for process in listed if thing.is_run_by(process) and process.kind == "worker"]
        if not found:
            raise NotFoundError(
                f"no process of it is known; `processes` lists those that are ({hosts_probed(snapshot)}: others can't be seen)"
            )
        return list({process.key: process for process in found}.values())

    async def _history(self, asked: HistoryArguments) -> str:
        if asked.at is not None:
            return write_answer(await self._past.state_at(asked.at))
        head, events = await self._past.changes(asked.begin, asked.end)
        return write_answer({**head, "count": len(events)}, Page("changes", events, event_row, asked.start))

    async def _check(self, asked: CheckArguments) -> str:
        if (asked.command is None) == (asked.preset is None):
            raise SourceError("expected `command` or `preset`")
        if asked.preset is not None:
            named = {one.name: one for one in presets() if not isinstance(one, PresetError)}
            if asked.preset not in named:
                raise SourceError(f"there is no such preset; there are: {', '.join(named)}")
            result, name = await sample_and_check(self._monitor, named[asked.preset]), asked.preset
        else:
            # Not with this server's variables: an agent could read them in the answer.
            result, name = await sample_and_check(self._monitor, preset_of((asked.command or "",)), env={}), "this command"
        budget = result.budget
        head = {
            "verdict": result.verdict,
            "sentence": verdict(name, result),
            "needs": needs_line(budget) or None,
            "framework": budget.framework,
            "gpus": budget.gpus,
            "cpus": budget.amount("CPU"),
            "sure": budget.mark,
            "unread": list(budget.unread) or None,
        }
        lines = [line for line in result.lines if line.level != "fine"] + [line for line in result.lines if line.level == "fine"]
        return write_answer(head, Page("lines", lines, msgspec.to_builtins, asked.start))

    async def _plan(self, asked: PlanArguments) -> str:
        if self.plans is None:
            raise SourceError(self._why_no_plans)
        if asked.show is not None:
            return write_plan(asked.show, self.plans.kept(asked.show), can_perform=self.can_perform, start=asked.start)
        fields = {field: getattr(asked, field) for field in PlanRequest.__struct_fields__}
        name, kept = await self.plans.make(PlanRequest(**fields))
        return write_plan(name, kept, can_perform=self.can_perform)


def _busy(threads: Iterable[StackThread]) -> tuple[str, ...]:
    """The threads that do something, each as its innermost calls; equal for processes that stand at the same place."""
    calls: list[str] = []
    for thread in threads:
        frames = list(thread.frames)
        while frames and is_idle(frames[-1]):  # what has started the thread, or Ray's own loop
            frames.pop()
        if frames:
            calls.append(" < ".join(f"{frame.name} ({frame.file}:{frame.line})" for frame in frames[:MAX_CALLS]))
    return tuple(sorted(calls))
