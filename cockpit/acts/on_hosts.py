"""Acts that the probes of hosts plan and do: what each host is asked, and one plan and one receipt out of what they answer and Ray adds."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
from msgspec.structs import replace

from cockpit.acts.act import Act, Flag
from cockpit.acts.plan import Aim, Plan, ProbeReply, Receipt, Target, Unreached, losses_of, reply_of, sum_freed
from cockpit.model import Process, Snapshot, describe_owner

if TYPE_CHECKING:
    from cockpit.acts.world import ActContext, Hear  # deferred, as in `act`
    from cockpit.sources.probes.requests import HostAnswer

ACT_SILENCE_S = 30.0
"""Seconds of silence, beyond the grace, after which a host is given up."""
PLAN_SILENCE_S = 12.0
"""The same while a plan is made: the hosts that have answered wait for the one that hangs."""
FORCE: Final = Flag("force", "--force", "switch", "SIGKILL at once, without SIGTERM first.")
GRACE: Final = Flag("grace", "--grace", "seconds", "Seconds between SIGTERM and SIGKILL, 0 to 3600.", "S")


class HostAct(Act):
    """Asks all its hosts at once. The stage `plan` changes nothing; the stage `do` is given the targets that were agreed to."""

    grace_s: ClassVar[float] = 0.0
    """Between SIGTERM and SIGKILL where nobody says otherwise; 0: it sends no signals."""
    allows_ray = True
    """Its requests may be sent through Ray to hosts that can't be reached otherwise."""
    asks_for_jobs: ClassVar[bool] = True
    """Whether a plan needs Ray's word on which jobs run."""

    @abstractmethod
    def request(self, aim: Aim, host: str) -> dict[str, Any]:
        """What this host is asked, besides what every request holds."""

    def at_session(self, aim: Aim, context: ActContext) -> Aim:  # what is left over is of no session that lives
        """The aim with the session that is meant. Raises `SourceError` where that can't be told."""
        return aim

    def hosts(self, aim: Aim, context: ActContext) -> tuple[str, ...]:  # all of them, unless something says where
        """Those that are asked when nobody has named any."""
        return context.all_hosts

    async def plan(self, aim: Aim, context: ActContext, hear: Hear) -> Plan:
        """What the probes of all these hosts would do."""
        aim = self.at_session(aim, context)
        context.update_hosts()
        hosts = context.named_hosts(aim.hosts) if aim.hosts else self.hosts(aim, context)
        jobs, silent = await context.jobs_by_session() if self.asks_for_jobs else ([], ())
        asked = {host: {**self.request(aim, host), "stage": "plan", "jobs": jobs, "past": _past(context.snapshot, host)} for host in hosts}
        answers = await context.requests.send(asked, hear, PLAN_SILENCE_S, allows_ray=self.allows_ray)
        made = build_plan(self, answers, asked, followed=context.follows(aim.session), titles=context.titles_of(hosts))
        plan = with_gpus(made, context.snapshot)
        plan = replace(plan, targets=with_names(plan.targets, context.snapshot), refused=with_names(plan.refused, context.snapshot))
        plan = replace(plan, notes=(*self._signals(plan), *plan.notes, *(silent if plan.refused else ())))
        unknown = self.unknown_hosts(aim, context)
        return plan if unknown is None else self.with_unknown_hosts(plan, unknown, context)

    def unknown_hosts(self, aim: Aim, context: ActContext) -> str | None:
        """That there may be hosts which only a Ray knows that has not answered; `None`: there are none, or they were named."""
        snapshot = context.snapshot
        if aim.hosts or (snapshot.nodes is not None and context.follows(aim.session) and snapshot.cluster.reachable):
            return None
        return "Ray has not answered: if it has more hosts than these, name them"

    def with_unknown_hosts(self, plan: Plan, unknown: str, context: ActContext) -> Plan:
        """It is worth a word where there is anything at all."""
        anything = plan.targets or plan.refused or any(one.live for one in context.snapshot.sessions or ())
        return replace(plan, notes=(*plan.notes, unknown)) if anything else plan

    async def perform(self, plan: Plan, context: ActContext, hear: Hear) -> Receipt:
        """Each host is sent its own targets, and looks at them again."""
        jobs, _ = await context.jobs_by_session()
        asked = {host: _deed(plan, host, jobs, context.snapshot) for host in {target.host: None for target in plan.targets}}
        silence = ACT_SILENCE_S + max((self._grace_of(one) for one in asked.values()), default=0.0)
        receipt = build_receipt(self, plan, await context.requests.send(asked, hear, silence, allows_ray=self.allows_ray))
        told = {name: with_names(getattr(receipt, name), context.snapshot) for name in ("done", "refused", "failed")}
        return replace(receipt, **told)

    def _grace_of(self, request: Mapping[str, Any]) -> float:
        return self.grace_s if request.get("grace") is None else float(request["grace"])

    def _signals(self, plan: Plan) -> tuple[str, ...]:
        """Which signals, and how long between them."""
        first: Mapping[str, Any] = next(iter(plan.requests.values()), {})
        if not self.grace_s or not plan.targets or first.get("everything"):
            return ()
        if first.get("force"):
            return ("SIGKILL at once",)
        if first.get("only"):
            return (f"SIGTERM only; processes that have not ended after {self._grace_of(first):g} s are listed",)
        return (f"SIGTERM first; SIGKILL after {self._grace_of(first):g} s for processes that have not ended",)


def without_none(**fields: Any) -> dict[str, Any]:
    """A request without what nobody has said."""
    return {name: value for name, value in fields.items() if value is not None}


def _deed(plan: Plan, host: str, jobs: list[dict[str, Any]], snapshot: Snapshot) -> dict[str, Any]:
    mine = [msgspec.to_builtins(target) for target in plan.targets if target.host == host]
    return {**plan.requests[host], "jobs": jobs, "stage": "do", "targets": mine, "past": _past(snapshot, host)}


def _past(snapshot: Snapshot, host: str) -> list[Any]:
    """What the probe of that host has seen before, as it has said it."""
    return [[process.pid, process.ticks, process.past] for process in snapshot.processes or () if process.host == host and process.past]


def build_plan(
    act: Act,
    answers: Mapping[str, HostAnswer],
    asked: Mapping[str, Mapping[str, Any]],
    *,
    followed: bool,
    titles: Mapping[str, str] | None = None,
) -> Plan:
    """One plan out of what the hosts have answered. A host that has two names is one host. `titles`: by host, what people call it."""
    titles = titles or {}
    replies, refused, silent = _replies(act, answers, titles)
    machines: dict[str, str] = {}
    for host, reply in replies.items():
        machines.setdefault(reply.machine or host, host)
    twice = tuple(
        f"{host} and {machines[reply.machine or host]} are the same host"
        for host, reply in replies.items()
        if machines[reply.machine or host] != host
    )
    replies = {host: _without_inner(replies[host], machines) for host in machines.values()}
    kept = {host: {name: value for name, value in asked[host].items() if name not in ("jobs", "past", "stage")} for host in asked}
    return Plan(
        act=act.id,
        title=act.title,
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


def _without_inner(reply: ProbeReply, machines: Collection[str]) -> ProbeReply:
    """What runs in a container that was asked itself is that one's to tell."""
    boot = (reply.machine or "").partition(" ")[0]

    def own(targets: Sequence[Target]) -> tuple[Target, ...]:
        return tuple(target for target in targets if target.inside is None or f"{boot} {target.inside}" not in machines)

    return replace(reply, targets=own(reply.targets), refused=own(reply.refused))


def build_receipt(act: Act, plan: Plan, answers: Mapping[str, HostAnswer]) -> Receipt:
    """One receipt out of what the hosts have answered; what none of them speaks of has not been done."""
    replies, refused, silent = _replies(act, answers, plan.titles)
    said = (*_all(replies, "done"), *_all(replies, "refused"), *_all(replies, "failed"))
    known = {_identity(target) for target in said}
    lost = [target for target in plan.targets if target.host in replies and _identity(target) not in known]
    return Receipt(
        act=plan.act,
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


def _identity(target: Target) -> tuple[object, ...]:
    return target.host, target.what, target.pid, target.ticks, target.path, target.id


def _all(replies: Mapping[str, ProbeReply], name: str) -> tuple[Any, ...]:
    return tuple(one for reply in replies.values() for one in getattr(reply, name))


def _replies(
    act: Act, answers: Mapping[str, HostAnswer], titles: Mapping[str, str]
) -> tuple[dict[str, ProbeReply], tuple[Target, ...], tuple[Unreached, ...]]:
    """What hosts have answered, which of them refused altogether, and which could not be asked."""
    read = {host: _reply(act, answer, titles.get(host, host)) for host, answer in answers.items()}
    replies = {host: reply for host, reply in read.items() if isinstance(reply, ProbeReply)}
    errors = {host: error for host, error in read.items() if isinstance(error, str)}
    refused = tuple(Target("host", host, name=host, reason=error) for host, error in errors.items() if answers[host].refused)
    return replies, refused, tuple(Unreached(host, error) for host, error in errors.items() if not answers[host].refused)


def _reply(act: Act, answer: HostAnswer, title: str) -> ProbeReply | str:
    if answer.reply is None:
        return answer.error or f"{answer.host} gave no answer"
    try:
        return reply_of(answer.host, answer.reply, act.nouns, title)
    except msgspec.ValidationError as error:
        return f"{answer.host}: the answer of its probe can't be read: {error}"


_RAYS_ID: Final = r"\b(?:job [0-9a-f]{8}|actor [0-9a-f]{32})\b"


def owners_of(targets: Sequence[Target], snapshot: Snapshot) -> list[str | None]:
    """Of each target in words, where it is another Ray, or can't be told; `None`: the followed cluster, or nobody of Ray's."""
    known = {(process.host, process.pid, process.ticks): process for process in snapshot.processes or ()}
    return [_owner(target, known.get((target.host, target.pid or 0, target.ticks)), snapshot.cluster.session) for target in targets]


def with_owners(plan: Plan, snapshot: Snapshot) -> Plan:
    """The plan in which each process of another Ray says first whose it is."""
    return replace(plan, targets=_name_owners(plan.targets, snapshot), refused=_name_owners(plan.refused, snapshot))


def with_names(targets: Sequence[Target], snapshot: Snapshot) -> tuple[Target, ...]:
    """Of the followed cluster, sentences call jobs and actors as people do: a probe knows Ray's own ids alone."""
    names = {f"job {job.job}": f"job {job.id}" for job in snapshot.jobs or () if job.job}
    names |= {f"actor {actor.id}": f"actor {actor.name or actor.class_}" for actor in snapshot.actors or () if actor.name or actor.class_}

    def name_ids(text: str | None) -> str | None:
        return text and re.sub(_RAYS_ID, lambda found: names.get(found[0], found[0]), text)

    def name_ids_in(target: Target) -> Target:
        if target.session is None or target.session != snapshot.cluster.session:
            return target
        why = tuple(name_ids(reason) or "" for reason in target.why)
        return replace(target, why=why, reason=name_ids(target.reason), error=name_ids(target.error), outcome=name_ids(target.outcome))

    return tuple(map(name_ids_in, targets))


def with_gpus(plan: Plan, snapshot: Snapshot) -> Plan:
    """What Ray's agents count: of several raylets on a host each may have been given GPUs that its probe does not see."""
    held = {(process.host, process.pid, process.ticks): process.gpus for process in snapshot.processes or ()}
    targets = (replace(one, gpus=one.gpus or held.get((one.host, one.pid or 0, one.ticks), ())) for one in plan.targets)
    return replace(plan, targets=tuple(targets))


def _owner(target: Target, process: Process | None, followed: str | None) -> str | None:
    if process is not None and (process.ours or process.job or process.other_owner):
        return process.other_owner
    if target.session is None or followed is None:
        return describe_owner(target.job, target.session, another=False) if target.job else None
    return None if target.session == followed else describe_owner(target.job, target.session, another=True)


def _name_owners(targets: Sequence[Target], snapshot: Snapshot) -> tuple[Target, ...]:
    pairs = zip(targets, owners_of(targets, snapshot), strict=True)
    return tuple(target if owner is None else replace(target, why=(owner, *target.why)) for target, owner in pairs)
