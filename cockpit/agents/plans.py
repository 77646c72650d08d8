"""Makes plans for an agent, keeps them for a minute, and performs one after a person has agreed to it.

What a plan may touch is decided here and by the actions, from the snapshot and the hosts; no text of the cluster chooses it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from cockpit.actions.action import Action, Runbook
from cockpit.actions.action_context import UnclearSessionError
from cockpit.actions.agreement import Agreement, Outcome, Question
from cockpit.actions.audit import title_of
from cockpit.actions.choose import Selection, choose_action
from cockpit.actions.executor import ActionExecutor
from cockpit.actions.plan import ActionTarget, Plan, Receipt, Target
from cockpit.actions.plan_text import headline, reasons, summary
from cockpit.actions.table import ACTIONS, find_action_or_runbook
from cockpit.agents.answers import Page, write_answer
from cockpit.agents.facts import find_finding, find_job, is_on
from cockpit.agents.logs import real_name
from cockpit.cli.targets import find_id
from cockpit.model import Process, Snapshot
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.presets import PresetError, presets
from cockpit.sources.source import NotMeantError, SourceError

PLAN_MAX_AGE_S: Final = 60.0
"""A person who agrees must see the cluster as it is."""
FRESH_S: Final = 10.0
"""A plan that a person has agreed to so soon is not made again before it is performed."""
MAX_KEPT: Final = 20
PLANNABLE: Final[Mapping[str, Action]] = {action.id: action for action in ACTIONS if not isinstance(action, Runbook)}
"""Every action of cockpit; `recover`, which is many actions in a row, is for people alone."""
LIVE_ROWS: Final = ("kill", "terminate")
"""Actions on processes of any kind, each named by its host and pid."""


class PlanRequest(msgspec.Struct, frozen=True):
    """What an agent may choose of a plan. It can't name checkpoints to be deleted: `clean` keeps them."""

    action: str | None = None
    finding: str | None = None
    hosts: tuple[str, ...] = ()
    id: str | None = None
    pids: tuple[int, ...] = ()
    session: str | None = None
    everything: bool = False
    force: bool = False
    older_than_s: float | None = None
    preset: str | None = None


class KeptPlan(msgspec.Struct, frozen=True):
    """A plan that can be performed for a minute."""

    action: Action
    requested: ActionTarget
    plan: Plan
    made: float


Ask = Callable[[Question], Awaitable[Agreement]]
"""Asks a person; returns the decision."""


class Plans:
    """The plans of one server."""

    def __init__(self, monitor: ClusterMonitor, executor: ActionExecutor, clock: Callable[[], float] = time.monotonic) -> None:
        self._monitor, self._executor, self._clock = monitor, executor, clock
        self._kept: dict[str, KeptPlan] = {}

    async def make(self, request: PlanRequest) -> tuple[str, KeptPlan]:
        """Plan, and keep the plan under a new id. Changes nothing. Raises `SourceError`."""
        action, requested = self._resolve(request)
        try:
            plan = await self._executor.plan(action, requested)
        except UnclearSessionError as error:
            raise SourceError(f"{error}: give `session`") from None
        kept, name = KeptPlan(action, requested, plan, self._clock()), secrets.token_hex(4)
        self._kept[name] = kept
        while len(self._kept) > MAX_KEPT:
            self._kept.pop(next(iter(self._kept)))
        return name, kept

    def kept(self, name: str) -> KeptPlan:
        """A kept plan, to be shown again. Raises `SourceError`."""
        if name not in self._kept:
            raise SourceError("this server has no such plan: make one with `plan`")
        return self._kept[name]

    async def take(self, name: str) -> KeptPlan:
        """Take a kept plan, once, as it is made now if that is the same plan. Raises `NotMeantError`, and `SourceError`."""
        kept = self._kept.pop(name, None)
        if kept is None:
            raise NotMeantError("this server has no such plan, or it was used already: make one with `plan`")
        age = self._clock() - kept.made
        if age > PLAN_MAX_AGE_S:
            raise NotMeantError(
                f"this plan was made {age:.0f} s ago, and a plan holds for {PLAN_MAX_AGE_S:.0f} s: make a new one with `plan`"
            )
        if kept.plan.empty:
            raise NotMeantError("there is nothing to do in this plan")
        return await self._made_again(kept)

    async def _made_again(self, kept: KeptPlan) -> KeptPlan:
        """The plan as it is made now. Raises `NotMeantError` if that is another plan."""
        if kept.action.starts_job:  # a launch proves itself that it starts one job, the planned one
            return kept
        now = await self._executor.plan(kept.action, kept.requested)
        if _identity(now) != _identity(kept.plan):
            raise NotMeantError("what this plan was about has changed since: make a new one with `plan`, and look at it again")
        return replace(kept, plan=now, made=self._clock())

    async def perform(self, taken: KeptPlan, reason: str, client: str, ask: Ask) -> str:
        """Ask, and perform exactly this plan after a yes. Returns the answer for the agent. Raises `SourceError`.

        If the person has thought for long, other work may be on a node or in a job by now, and nothing is done.
        """
        agreement = await ask(Question(taken.plan, reason, client))
        if not agreement.agreed:
            raise NotMeantError(f"nothing was done: {agreement.why}")
        try:
            if self._clock() - taken.made > FRESH_S:
                await self._made_again(taken)
            receipt = await self._executor.perform(taken.plan)
            await agreement.report(Outcome(receipt))
        except SourceError as error:
            await agreement.report(Outcome(error=str(error)))
            raise
        finally:
            agreement.close()  # also if the client has cancelled the call: the screen must not wait for its outcome
        return write_receipt(receipt)

    # The action and its target

    def _resolve(self, request: PlanRequest) -> tuple[Action, ActionTarget]:
        """The action and its target. Raises `SourceError` if they are unknown or don't fit."""
        snapshot = self._monitor.poller.snapshot
        if request.finding is not None:
            return self._remedy(request.finding, snapshot)
        action = PLANNABLE.get(request.action or "")
        if action is None:
            raise SourceError(f"expected `finding`, or `action`: one of {', '.join(PLANNABLE)}")
        if action.id in LIVE_ROWS:
            return action, self._processes(action, request, snapshot)
        if action.id == "launch":
            names = {one.name: one for one in presets() if not isinstance(one, PresetError)}
            if request.preset not in names:
                raise SourceError(f"expected `preset`: one of {', '.join(names)}")
            return action, ActionTarget(rows=(names[request.preset],))
        if action.starts_job:
            return action, ActionTarget(rows=(find_job(request.id or "", snapshot),))
        if action.operand != "hosts":
            if not request.id:
                raise SourceError(f"expected `id`: {action.noun}")
            name = real_name(request.id, snapshot)
            return action, ActionTarget(
                id=find_id(action, name, snapshot, self._monitor.config.names_of) if action.operand == "ray_id" else name
            )

        hosts = tuple(self._known_hosts(request.hosts, snapshot))
        chosen = {
            "pids": request.pids,
            "session": request.session,
            "sessions": (request.session,) if request.session else (),
            "everything": request.everything,
            "force": request.force,
            "older_than": request.older_than_s,
        }
        flags = {flag.field for flag in action.flags}
        if request.everything and request.session:
            raise SourceError("`everything` and `session` exclude each other")
        if request.pids and not hosts:
            raise SourceError("a pid means one process on one host: give `hosts` with that host")
        fields: dict[str, Any] = {name: value for name, value in chosen.items() if name in flags}
        return action, ActionTarget(hosts=hosts, **fields)

    def _remedy(self, finding: str, snapshot: Snapshot) -> tuple[Action, ActionTarget]:
        """The action that mends this finding, on what it is about: as the key on its row in the screen."""
        found = find_finding(finding, snapshot)
        if found.remedy is None or found.remedy.action is None:
            raise SourceError("no action of cockpit mends this finding; its `remedy` says what a person can do")
        action = find_action_or_runbook(found.remedy.action)
        if isinstance(action, Runbook):
            raise SourceError(f"{action.id} is many actions in a row, and only a person can start it")
        choice = choose_action((action,), Selection((found,), snapshot=snapshot, in_pods=self._monitor.kubernetes is not None))
        if isinstance(choice, str):
            raise SourceError(choice)
        return action, choice.target

    def _processes(self, action: Action, request: PlanRequest, snapshot: Snapshot) -> ActionTarget:
        """The processes with these pids on one host, as the snapshot knows them: with their start times."""
        if len(request.hosts) != 1 or not request.pids:
            raise SourceError("expected one host in `hosts`, and `pids` on it")
        rows: list[Process] = []
        for pid in request.pids:
            found = [one for one in snapshot.processes or () if one.pid == pid and is_on(one, request.hosts[0], snapshot)]
            if len(found) != 1:
                raise SourceError(f"process {pid} is not known on that host: `processes` lists those that are")
            if (reason := action.why_not(found[0])) is not None:
                raise SourceError(reason)
            rows += found
        target = action.combine_into_target(rows)
        if isinstance(target, str):
            raise SourceError(target)
        return target

    def _known_hosts(self, names: Sequence[str], snapshot: Snapshot) -> Iterator[str]:
        """These hosts, each known already: a host that only a text names would be contacted."""
        titles, config = snapshot.index.titles, self._monitor.config
        known = {self._monitor.pool.local, "localhost", *snapshot.hosts, *self._monitor.select_others()}
        known |= {name for node in snapshot.nodes or () for name in (titles.of_node(node), node.title, node.host, node.ip, node.id) if name}
        known |= {name for entry in config.hosts for name in (entry.name, entry.target)}
        for name in names:
            if name not in known:
                raise SourceError("an unknown host is not contacted for an agent; `status` and `node` name those that are known")
            yield name


def _identity(plan: Plan) -> tuple[object, ...]:
    """The things of a plan with their identities, and the work that ends. A plan that is made again must have the same."""

    def one(target: Target) -> tuple[object, ...]:
        names = ("what", "host", "pid", "ticks", "path", "device", "inode", "id", "name", "kind", "job", "session", "beyond")
        return tuple(getattr(target, name) for name in names)

    targets = frozenset(one(target) for target in plan.targets)
    return plan.action, plan.session, plan.word, targets


# Answers


def write_plan(name: str, kept: KeptPlan, *, can_perform: bool, start: int = 0) -> str:
    """The plan as an agent sees it."""
    plan = kept.plan
    if plan.empty:
        then = "nothing to do"
    elif can_perform:
        then = f"`perform` with this id within {PLAN_MAX_AGE_S:.0f} s; a person must agree{' by typing a word' if plan.word else ''}"
    else:
        then = "this server only shows plans: a person carries it out on the screen or the command line"
    head = {
        "plan": name,
        "headline": headline(plan),
        "then": then,
        "ends": list(plan.losses),
        "refused": reasons(plan.refused, plan.titles),
        "unknown": list(plan.unknown),
        "unreached": [f"{plan.titles.get(one.host, one.host)}: {one.error}" for one in plan.unreached],
        "notes": list(plan.notes),
        "session": plan.session,
        "other_sessions": list(plan.beside),
    }
    facts = {key: value for key, value in head.items() if value != []}
    hint = f"call plan with show={name} and start"
    return write_answer(facts, Page("targets", plan.targets, lambda target: target_row(target, plan.titles), start, hint))


def target_row(target: Target, titles: Mapping[str, str]) -> Mapping[str, Any]:
    """One thing that would be changed."""
    names = ("kind", "part", "user", "state", "job", "size", "files", "command", "reason", "error", "outcome")
    facts = {name: getattr(target, name) for name in names}
    gpus = [hold.index for hold in target.gpus] or None
    return {
        "target": title_of(target), "host": titles.get(target.host, target.host), **facts,
        "gpus": gpus, "gpu_memory": target.gpu_memory, "why": list(target.why) or None,
    }  # fmt: skip


def write_receipt(receipt: Receipt) -> str:
    """What was done, target by target."""
    head = {
        "headline": summary(receipt),
        "failed": reasons(receipt.failed, receipt.titles),
        "refused": reasons(receipt.refused, receipt.titles),
        "unreached": [f"{receipt.titles.get(one.host, one.host)}: {one.error}" for one in receipt.unreached],
        "notes": list(receipt.notes),
        "freed": {name: value for name, value in msgspec.to_builtins(receipt.freed).items() if value is not None},
        "took_s": receipt.took,
    }
    facts = {key: value for key, value in head.items() if value not in ([], {})}
    return write_answer(facts, Page("done", receipt.done, lambda target: target_row(target, receipt.titles), hint="not shown"))
