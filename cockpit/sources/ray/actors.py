"""Converts the answers of Ray's state and job APIs about actors, placement groups and jobs into values of the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from cockpit import secrets
from cockpit.model import GROUP_WAIT_PREFIX, Actor, Bundle, Job, PlacementGroup, Value
from cockpit.sources.lenient_json import NotRayError, decode
from cockpit.sources.ray import wire
from cockpit.sources.ray.nodes import identifier
from cockpit.sources.ray.resources import bundle_of, plausible_amount, strip_group_names
from cockpit.sources.ray.status import GroupDemand
from cockpit.times.ttl_cache import TtlCache

WAITING = ("DEPENDENCIES_UNREADY", "PENDING_CREATION", "RESTARTING")
MAX_MESSAGE_CHARS = 21_000
"""The longest message of a job that is kept. Ray itself cuts the log in a failed job's message at 20,000 characters."""
MAX_ENV_BYTES = 128 << 10
"""The longest runtime environment or command that is read and kept. Linux passes no longer argument to a program."""
MAX_TIME_MS = 2.5e14
"""The latest time that counts, in the year 9892: later ones can't be formatted as a date."""
_SENTENCE_CHARS = 600
_NOTHING = (b"null", b"[]", b"{}")

SCHEDULING = {
    "QUEUED": "queued behind other placement groups",
    "SCHEDULING_STARTED": "Ray is placing it",
    "NO_RESOURCES": "not enough resources are free for all its bundles",
    "INFEASIBLE": "its bundles do not fit, even on empty nodes",
    "FAILED_TO_COMMIT_RESOURCES": "the free resources were taken during placement; Ray tries again",
}
"""The texts for `stats.scheduling_state`. Ray 2.9 has NO_RESOURCES for the INFEASIBLE of 2.60."""


class ActorFacts(Value, frozen=True):
    """All actors that are not dead."""

    actors: tuple[Actor, ...]
    counts: Mapping[str, int] | None
    """The number of actors by state; a lower bound if the list of a state was cut."""
    complete: bool
    """False if a list was cut: Ray cuts its answers at 10,000 entries."""


class GroupFacts(Value, frozen=True):
    """All placement groups that have not been removed."""

    groups: tuple[PlacementGroup, ...]
    complete: bool = True
    """False if the list was cut: Ray cuts its answers at 10,000 entries, removed groups included."""


class JobFacts(Value, frozen=True):
    """All submissions and drivers, including those that have ended."""

    jobs: tuple[Job, ...]


class WaitStart(msgspec.Struct, frozen=True):
    """When an actor was first seen waiting. `at_least`: it was already waiting in the first answer, so it waits longer."""

    moment: float
    at_least: bool


SHORT_CHARS = 500
"""The longest text of which each job and actor may have its own. There are few longer ones."""
_short, _long = TtlCache(secrets.redact, 16_384), TtlCache(secrets.redact, 1024)


def redact(text: str) -> str:
    """The text without secrets. Results are cached, since Ray repeats most texts in every answer."""
    return (_short if len(text) <= SHORT_CHARS else _long)(text)


def shorten_message(message: str | None) -> str | None:
    """The message on one line, cut, and without secrets."""
    return redact(" ".join(message[: 4 * _SENTENCE_CHARS].split()))[:_SENTENCE_CHARS] or None if message else None


def parse_actor(entry: wire.Actor, since: WaitStart | None, groups: Mapping[str, PlacementGroup]) -> Actor:
    """Convert one actor. `groups`, by id: the group that the actor is bound to may explain why it waits."""
    name, namespace = entry.name or "", entry.ray_namespace or ""
    return Actor(
        id=entry.actor_id,
        class_=entry.class_name or "",
        name=name,
        state=entry.state or "",
        job=identifier(entry.job_id),
        node=identifier(entry.node_id),
        pid=plausible_amount(entry.pid) or None,
        needs=strip_group_names(entry.required_resources),
        labels=entry.label_selector or {} if bytes(entry.fallback_strategy) in _NOTHING else {},
        placement_group=identifier(entry.placement_group_id),
        bundle=bundle_of(entry.required_resources),
        restarts=plausible_amount(entry.num_restarts),
        detached=entry.is_detached,
        since=since.moment if since else None,
        at_least=since.at_least if since else False,
        why=_why_dead(entry.death_cause) if entry.state == "DEAD" else _why_waiting(entry, groups),
        namespace=namespace,
        internal=name.startswith("_ray_internal_")
        or namespace == "SUPERVISOR_ACTOR_RAY_NAMESPACE"
        or namespace.startswith("_ray_internal_"),
    )


def _why_waiting(entry: wire.Actor, groups: Mapping[str, PlacementGroup]) -> str | None:
    """Why an actor waits, as far as it follows from its state and its group: Ray gives no reason."""
    if entry.state == "DEPENDENCIES_UNREADY":
        return "its constructor's arguments are not ready"
    group = groups.get(entry.placement_group_id or "")
    if entry.state == "PENDING_CREATION" and group is not None and group.pending:
        return f"{GROUP_WAIT_PREFIX}{group.why}" if group.why else "its placement group waits"
    return None


_PREAMBLE = "The actor is dead because "
"""The start of Ray's message about every dead actor; the cause follows."""


def _why_dead(cause: wire.DeathCause | None) -> str | None:
    """One sentence for each of the five causes of death (`ActorDeathCause` in common.proto)."""
    if cause is None:
        return None
    if failure := cause.creation_task_failure_context:
        return f"its constructor failed: {shorten_message(_error_line(failure.formatted_exception_string)) or 'Ray gives no reason'}"
    if setup := cause.runtime_env_failed_context:
        return f"its runtime environment could not be set up: {shorten_message(_error_line(setup.error_message)) or 'Ray gives no reason'}"
    if oom := cause.oom_context:
        message, _, _ = (oom.error_message or "").partition("Object store memory usage")
        return f"Ray's memory monitor killed it: {shorten_message(message) or 'the node ran low on memory'}"
    if stuck := cause.actor_unschedulable_context:
        return shorten_message(stuck.error_message) or "it can't be placed on any node"
    died = cause.actor_died_error_context
    return shorten_message((died.error_message or died.reason or "").removeprefix(_PREAMBLE)) if died else None


def _error_line(trace: str | None) -> str | None:
    """The first `Error: …` line of a traceback; those after it are the exceptions that it was wrapped in."""
    lines = [line.strip() for line in (trace or "")[:100_000].splitlines() if line.strip() and not line.startswith((" ", "\t"))]
    raised = [
        line for line in lines if not line.startswith(("Traceback", "During handling", "The above exception", "[", "Could not create"))
    ]
    return raised[0] if raised else lines[-1] if lines else None


def parse_group(entry: wire.Group, since: float | None, strategy: str | None, shift: float = 0.0) -> PlacementGroup:
    """Convert one placement group. `since` is when it was first seen in its state; `shift` is added to Ray's times to get ours."""
    state = entry.state or ""
    requested = entry.stats.creation_request_received_ns if entry.stats else None
    if state != "RESCHEDULING" and requested and 0 < requested < MAX_TIME_MS * 1e6:
        since = requested / 1e9 + shift
    return PlacementGroup(
        id=entry.placement_group_id,
        name=entry.name or "",
        state=state,
        strategy=strategy,
        bundles=tuple(
            Bundle(needs=strip_group_names(bundle.unit_resources), node=identifier(bundle.node_id), labels=bundle.label_selector or {})
            for bundle in entry.bundles or ()
        ),
        job=identifier(entry.creator_job_id),
        since=since,
        detached=entry.is_detached,
        why=SCHEDULING.get(entry.stats.scheduling_state or "") if entry.stats and state != "CREATED" else None,
    )


Shape = tuple[tuple[tuple[str, float], ...], ...]
"""The bundles of a group in sorted order, so that groups with the same bundles compare equal."""


def strategies_by_shape(demands: Iterable[GroupDemand]) -> Mapping[Shape, frozenset[str | None]]:
    """The strategies of waiting groups, by their bundles."""
    found: dict[Shape, set[str | None]] = {}
    for demand in demands:
        found.setdefault(_shape(demand.bundles), set()).add(demand.strategy)
    return {shape: frozenset(names) for shape, names in found.items()}


def find_strategy(entry: wire.Group, known: Mapping[Shape, frozenset[str | None]]) -> str | None:
    """The strategy of a waiting group, found by its bundles; `None` if groups with the same bundles wait with different strategies.

    `None` also for a group with a topology strategy, which places it by a label of nodes such as a rack.
    """
    if entry.topology_strategy or not known:
        return None
    found = known.get(_shape(strip_group_names(bundle.unit_resources) for bundle in entry.bundles or ()), frozenset())
    return next(iter(found)) if len(found) == 1 else None


def _shape(bundles: Iterable[Mapping[str, float]]) -> Shape:
    return tuple(sorted(tuple(sorted(bundle.items())) for bundle in bundles))


def parse_job(entry: wire.Job) -> Job | None:
    """Convert one job; `None` for an entry without an id."""
    name = entry.submission_id or entry.job_id
    if name is None:
        return None
    driver, environment = entry.driver_info, bytes(entry.runtime_env)
    return Job(
        id=name,
        job=identifier(entry.job_id),
        submission=entry.submission_id,
        status=entry.status or "",
        entrypoint=redact(entry.entrypoint[:MAX_ENV_BYTES]) if entry.entrypoint else None,
        started=_seconds(entry.start_time),
        ended=_seconds(entry.end_time),
        message=redact(entry.message[:MAX_MESSAGE_CHARS]) if entry.message else None,
        error_type=entry.error_type,
        driver_node=identifier(entry.driver_node_id),
        driver_pid=plausible_amount(driver.pid) if driver else None,
        exit_code=plausible_amount(entry.driver_exit_code),
        preset=entry.get_text(wire.PRESET),
        runtime_env=_read_environment(environment) if len(environment) <= MAX_ENV_BYTES else None,
        metadata={key: secrets.redact_variable(key, text[:MAX_MESSAGE_CHARS]) for key, text in entry.texts.items() if key != wire.PRESET}
        if entry.metadata
        else None,
    )


def _decode_environment(raw: bytes) -> Mapping[str, Any] | None:
    try:
        found = decode(raw, Any)
        return secrets.redact_within(found) if found and isinstance(found, dict) else None
    except (NotRayError, RecursionError):  # so deep that no text of it can be redacted
        return None


_read_environment = TtlCache(_decode_environment, 1024)
"""Cached, since Ray repeats the environments in every answer."""


def _seconds(milliseconds: float | None) -> float | None:
    """The time in seconds; `None` for 0, a time that has not come, and for the largest 64-bit number, a time that was never set."""
    return milliseconds / 1000 if milliseconds and 0 < milliseconds < MAX_TIME_MS else None
