"""Defines actions that the probes of hosts plan and perform: builds the request for each host, and merges the answers."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
from msgspec.structs import replace

from cockpit.actions.action import Action, Flag
from cockpit.actions.plan import ActionTarget, Plan, ProbeReply, Receipt, Target, Unreached, losses_of, reply_of, sum_freed
from cockpit.model import Snapshot, describe_owner

if TYPE_CHECKING:
    from cockpit.actions.action_context import ActionContext, OnProgress  # deferred, as in `action.py`
    from cockpit.sources.probes.requests import HostAnswer

ACTION_SILENCE_S = 30.0
"""Seconds of silence, beyond the grace, after which a host is given up."""
PLAN_SILENCE_S = 12.0
"""Seconds of silence for a plan: shorter, because a person waits for it."""
FORCE: Final = Flag("force", "--force", "switch", "SIGKILL at once, without SIGTERM first.")
GRACE: Final = Flag("grace", "--grace", "seconds", "Seconds between SIGTERM and SIGKILL, 0 to 3600.", "S")
_RAY_ID: Final = r"\b(?:job [0-9a-f]{8}|actor [0-9a-f]{32})\b"


class HostAction(Action):
    """An action that asks all its hosts at once. The stage `plan` changes nothing; the stage `do` gets the confirmed targets."""

    grace_s: ClassVar[float] = 0.0
    """The default time between SIGTERM and SIGKILL; 0: it sends no signals."""
    allows_ray = True
    """Its requests may be sent through Ray to hosts that can't be reached otherwise."""
    asks_for_jobs: ClassVar[bool] = True
    """Whether a plan needs the running jobs from Ray."""

    @abstractmethod
    def request(self, requested: ActionTarget, host: str) -> dict[str, Any]:
        """Return the request for this host, without the fields that every request has."""

    def with_session(self, requested: ActionTarget, context: ActionContext) -> ActionTarget:
        """Return the target with the session that is meant, for an action on a live session. Raises `SourceError` if it is unclear."""
        return requested

    def hosts(self, requested: ActionTarget, context: ActionContext) -> tuple[str, ...]:
        """Return the hosts to ask if the user has named none."""
        return context.all_hosts

    async def plan(self, requested: ActionTarget, context: ActionContext, on_progress: OnProgress) -> Plan:
        requested = self.with_session(requested, context)
        context.update_hosts()
        hosts = context.named_hosts(requested.hosts) if requested.hosts else self.hosts(requested, context)
        jobs, silent = await context.jobs_by_session() if self.asks_for_jobs else ([], ())
        asked = {
            host: {**self.request(requested, host), "stage": "plan", "jobs": jobs, "past": _past(context.snapshot, host)} for host in hosts
        }
        answers = await context.requests.send(asked, on_progress, PLAN_SILENCE_S, allows_ray=self.allows_ray)

        followed, titles, snapshot = context.follows(requested.session), context.titles_of(hosts), context.snapshot
        plan = with_gpus(build_plan(self, answers, asked, followed=followed, titles=titles), snapshot)
        notes = (*self._signals(plan), *plan.notes, *(silent if plan.refused else ()))
        plan = replace(plan, targets=with_names(plan.targets, snapshot), refused=with_names(plan.refused, snapshot), notes=notes)
        unknown = self.unknown_hosts(requested, context)
        return plan if unknown is None else self.with_unknown_hosts(plan, unknown, context)

    def unknown_hosts(self, requested: ActionTarget, context: ActionContext) -> str | None:
        """Return a sentence if there may be hosts that only a silent Ray knows, or `None`."""
        snapshot = context.snapshot
        if requested.hosts or (snapshot.nodes is not None and context.follows(requested.session) and snapshot.cluster.reachable):
            return None
        return "Ray has not answered: if it has more hosts than these, name them"

    def with_unknown_hosts(self, plan: Plan, unknown: str, context: ActionContext) -> Plan:
        """Add the sentence, unless no Ray was found anywhere."""
        anything = plan.targets or plan.refused or any(one.live for one in context.snapshot.sessions or ())
        return replace(plan, notes=(*plan.notes, unknown)) if anything else plan

    async def perform(self, plan: Plan, context: ActionContext, on_progress: OnProgress) -> Receipt:
        """Send each host its own targets; the host checks them again."""
        jobs, _ = await context.jobs_by_session()
        asked = {}
        for host in dict.fromkeys(target.host for target in plan.targets):
            mine = [msgspec.to_builtins(target) for target in plan.targets if target.host == host]
            own = {"jobs": jobs, "stage": "do", "targets": mine, "past": _past(context.snapshot, host)}
            asked[host] = {**plan.requests[host], **own}
        silence = ACTION_SILENCE_S + max((self._grace_of(one) for one in asked.values()), default=0.0)
        receipt = build_receipt(self, plan, await context.requests.send(asked, on_progress, silence, allows_ray=self.allows_ray))
        named = {name: with_names(getattr(receipt, name), context.snapshot) for name in ("done", "refused", "failed")}
        return replace(receipt, **named)

    def _grace_of(self, request: Mapping[str, Any]) -> float:
        return self.grace_s if request.get("grace") is None else float(request["grace"])

    def _signals(self, plan: Plan) -> tuple[str, ...]:
        """Say which signals are sent, and the time between them."""
        first: Mapping[str, Any] = next(iter(plan.requests.values()), {})
        if not self.grace_s or not plan.targets or first.get("everything"):
            return ()
        if first.get("force"):
            return ("SIGKILL at once",)
        if first.get("only"):
            return (f"SIGTERM only; processes that have not ended after {self._grace_of(first):g} s are listed",)
        return (f"SIGTERM first; SIGKILL after {self._grace_of(first):g} s for processes that have not ended",)


def without_none(**fields: Any) -> dict[str, Any]:
    """Return a request without the fields that are `None`."""
    return {name: value for name, value in fields.items() if value is not None}


def _past(snapshot: Snapshot, host: str) -> list[Any]:
    """Return the evidence that the watching probe of that host has collected."""
    return [[process.pid, process.ticks, process.past] for process in snapshot.processes or () if process.host == host and process.past]


def build_plan(
    action: Action, answers: Mapping[str, HostAnswer], asked: Mapping[str, Mapping[str, Any]], *, followed: bool, titles: Mapping[str, str]
) -> Plan:
    """Merge the answers of all hosts into one plan. `titles` maps hosts to the names that people use."""
    replies, refused, silent = _read_answers(action, answers, titles)

    # A host with two names is one host.
    machines: dict[str, str] = {}
    twice = []
    for host, reply in replies.items():
        first = machines.setdefault(reply.machine or host, host)
        if first != host:
            twice.append(f"{host} and {first} are the same host")

    # A container that was asked itself reports its own processes.
    for host in machines.values():
        reply = replies[host]
        boot = (reply.machine or "").partition(" ")[0]
        for name in ("targets", "refused"):
            own = (one for one in getattr(reply, name) if one.inside is None or f"{boot} {one.inside}" not in machines)
            setattr(reply, name, tuple(own))

    replies = {host: replies[host] for host in machines.values()}
    kept = {host: {name: value for name, value in asked[host].items() if name not in ("jobs", "past", "stage")} for host in asked}
    return Plan(
        action=action.id,
        title=action.title,
        targets=_all(replies, "targets"),
        refused=(*_all(replies, "refused"), *refused),
        unknown=_all(replies, "unknown"),
        notes=(*_all(replies, "notes"), *twice),
        losses=tuple(loss for host, reply in replies.items() for loss in losses_of(reply, titles.get(host, host), followed=followed)),
        unreached=silent,
        hosts=tuple(answers),
        requests=kept,
        titles=titles,
    )


def build_receipt(action: Action, plan: Plan, answers: Mapping[str, HostAnswer]) -> Receipt:
    """Merge the answers of all hosts into one receipt. A target that no answer mentions has failed."""
    replies, refused, silent = _read_answers(action, answers, plan.titles)

    def identity(target: Target) -> tuple[object, ...]:
        return target.host, target.what, target.pid, target.ticks, target.path, target.id

    reported = {identity(target) for name in ("done", "refused", "failed") for target in _all(replies, name)}
    lost = [target for target in plan.targets if target.host in replies and identity(target) not in reported]
    return Receipt(
        action=plan.action,
        title=plan.title,
        done=_all(replies, "done"),
        refused=(*_all(replies, "refused"), *refused),
        failed=(*_all(replies, "failed"), *(replace(target, error="its host did not report the outcome") for target in lost)),
        notes=_all(replies, "notes"),
        unreached=(*plan.unreached, *silent),
        hosts=plan.hosts,
        titles=plan.titles,
        freed=sum_freed(reply.freed for reply in replies.values()),
    )


def _all(replies: Mapping[str, ProbeReply], name: str) -> tuple[Any, ...]:
    return tuple(one for reply in replies.values() for one in getattr(reply, name))


def _read_answers(
    action: Action, answers: Mapping[str, HostAnswer], titles: Mapping[str, str]
) -> tuple[dict[str, ProbeReply], tuple[Target, ...], tuple[Unreached, ...]]:
    """Return the replies by host, the hosts that refused, and the hosts that could not be asked."""
    replies: dict[str, ProbeReply] = {}
    refused: list[Target] = []
    silent: list[Unreached] = []
    for host, answer in answers.items():
        error = answer.error or f"{answer.host} gave no answer"
        if answer.reply is not None:
            try:
                replies[host] = reply_of(answer.host, answer.reply, action.nouns, titles.get(host, host))
                continue
            except msgspec.ValidationError as mistake:
                error = f"{answer.host}: the answer of its probe can't be read: {mistake}"
        if answer.refused:
            refused.append(Target("host", host, name=host, reason=error))
        else:
            silent.append(Unreached(host, error))
    return replies, tuple(refused), tuple(silent)


def owners_of(targets: Sequence[Target], snapshot: Snapshot) -> list[str | None]:
    """Return the owner of each target, in words, if it is another or an unknown Ray; `None` for the followed one, or for none."""
    known = {(process.host, process.pid, process.ticks): process for process in snapshot.processes or ()}
    followed, owners = snapshot.cluster.session, []
    for target in targets:
        process = known.get((target.host, target.pid or 0, target.ticks))
        if process is not None and (process.ours or process.job or process.other_owner):
            owner = process.other_owner
        elif target.session is None or followed is None:
            owner = describe_owner(target.job, target.session, another=False) if target.job else None
        else:
            owner = None if target.session == followed else describe_owner(target.job, target.session, another=True)
        owners.append(owner)
    return owners


def with_owners(plan: Plan, snapshot: Snapshot) -> Plan:
    """Return the plan with the owner as the first reason of each process of another Ray."""

    def name_owners(targets: Sequence[Target]) -> tuple[Target, ...]:
        pairs = zip(targets, owners_of(targets, snapshot), strict=True)
        return tuple(target if owner is None else replace(target, why=(owner, *target.why)) for target, owner in pairs)

    return replace(plan, targets=name_owners(plan.targets), refused=name_owners(plan.refused))


def with_names(targets: Sequence[Target], snapshot: Snapshot) -> tuple[Target, ...]:
    """Put the names of jobs and actors of the followed cluster in place of Ray's ids; a probe knows only the ids."""
    names = {f"job {job.job}": f"job {job.id}" for job in snapshot.jobs or () if job.job}
    names |= {f"actor {actor.id}": f"actor {actor.name or actor.class_}" for actor in snapshot.actors or () if actor.name or actor.class_}

    def name_ids(text: str | None) -> str | None:
        return text and re.sub(_RAY_ID, lambda found: names.get(found[0], found[0]), text)

    def name_ids_in(target: Target) -> Target:
        if target.session is None or target.session != snapshot.cluster.session:
            return target
        why = tuple(name_ids(reason) or "" for reason in target.why)
        return replace(target, why=why, reason=name_ids(target.reason), error=name_ids(target.error), outcome=name_ids(target.outcome))

    return tuple(map(name_ids_in, targets))


def with_gpus(plan: Plan, snapshot: Snapshot) -> Plan:
    """Add the GPUs from Ray's agents: if a host has several raylets, each may have GPUs that the host's probe does not see."""
    held = {(process.host, process.pid, process.ticks): process.gpus for process in snapshot.processes or ()}
    targets = (replace(one, gpus=one.gpus or held.get((one.host, one.pid or 0, one.ticks), ())) for one in plan.targets)
    return replace(plan, targets=tuple(targets))
