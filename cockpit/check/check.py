"""Whether a preset's job would fit now, later or never. Pure: it follows from the preset, its budget and one snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from cockpit.budget import Budget, Group, Line, entrypoint_groups
from cockpit.check.gpus import gpu_memory
from cockpit.check.groups import PlacedGroups, names, place_groups
from cockpit.check.hosts import host_lines
from cockpit.check.nodes import Site, site_of
from cockpit.check.paths import path_lines
from cockpit.check.ports import Taken, port_lines
from cockpit.check.queue import NOBODY, queue_of
from cockpit.check.ray import ray_lines
from cockpit.check.result import CheckOutcome, judge
from cockpit.check.start import start_lines
from cockpit.check.worker_ports import worker_port_lines
from cockpit.config.thresholds import Limits
from cockpit.model import Job, Snapshot
from cockpit.presets import JobSpec, Needs, Preset, RayStart
from cockpit.secrets import redact
from cockpit.text import count


def check(preset: Preset, budget: Budget, snapshot: Snapshot, limits: Limits | None = None, taken: Taken = frozenset()) -> CheckOutcome:
    """Every line; the verdict is as bad as the worst of them. `taken` are ports of the preset's hosts on which somebody listens."""
    budget = _trust_what_runs(preset, _with_needs(preset, budget), snapshot)
    site = site_of(preset, snapshot, names(budget.groups or ()))
    ports = port_lines(preset.ray, taken) if isinstance(preset.ray, RayStart) and site.planned else ()
    lines = (*ports, *_lines(preset, budget, snapshot, site, limits or Limits()))
    return judge(budget, (Line(line.level, redact(line.text), line.change and redact(line.change)) for line in lines))


def _lines(preset: Preset, budget: Budget, snapshot: Snapshot, site: Site, limits: Limits) -> Iterator[Line]:
    yield from start_lines(preset, site, snapshot)
    yield from budget.lines
    yield from _unread(budget)
    yield from path_lines(preset, budget)
    found = PlacedGroups(())
    if budget.groups is not None:
        found = place_groups(budget.groups, site, NOBODY if site.planned else queue_of(snapshot), budget)
        yield from found.lines
        yield from _otherwise(budget, preset.needs)
    yield from gpu_memory(found, site, snapshot, budget, preset.needs, limits)
    yield from host_lines(found, site, preset, budget, limits)
    yield from worker_port_lines(found, site, preset)
    yield from ray_lines(found, site, snapshot, preset.needs, limits, budget.framework)


def _with_needs(preset: Preset, budget: Budget) -> Budget:
    """Where the command does not tell what it will ask for, what the preset says of it counts."""
    if preset.job is None:
        return Budget(None, groups=())
    told = _select_needed(preset.needs)
    if budget.framework not in (None, "Ray") or not told:
        return budget
    return replace(budget, framework="Ray", groups=(*(budget.groups or entrypoint_groups(own_needs(preset.job))), *told), unread=())


def _trust_what_runs(preset: Preset, budget: Budget, snapshot: Snapshot) -> Budget:
    """Where a job works with this very command, what is read as a mistake in it is only a doubt: another release or fork may run there."""
    job = None if preset.job is None else _find_proof(preset.job.entrypoint, snapshot)
    if job is None:
        return budget
    how = "runs now" if job.running else "has succeeded"
    unknown = f"but job {job.id} {how} with this command; cockpit can't know what its script or release of {budget.framework} does instead"
    lines = (Line("doubt", f"{line.text}, {unknown}", line.change) if line.level == "never" else line for line in budget.lines)
    return replace(budget, lines=tuple(lines))


def _find_proof(entrypoint: str, snapshot: Snapshot) -> Job | None:
    """A job of this command that has succeeded, or has an actor that lives: one that has only just begun may still fail."""
    at_work = {actor.job for actor in snapshot.actors or () if actor.state == "ALIVE" and not actor.internal}
    alike = (job for job in snapshot.jobs or () if job.entrypoint and job.entrypoint.split() == entrypoint.split())
    return next((job for job in alike if job.status == "SUCCEEDED" or (job.running and job.job in at_work)), None)


def own_needs(job: JobSpec) -> dict[str, float]:
    """What the command itself is given, beside its actors."""
    needs = {"GPU": job.entrypoint_num_gpus, "CPU": job.entrypoint_num_cpus, "memory": job.entrypoint_memory, **job.entrypoint_resources}
    return {name: float(amount) for name, amount in needs.items() if amount}


def _select_needed(needs: Needs) -> tuple[Group, ...]:
    if needs.bundles:
        return (Group("job", needs.bundles, needs.strategy),)
    each = {"GPU": needs.gpus or 0.0, "CPU": needs.cpus or 0.0}
    whole = [({name: 1.0}, int(amount)) for name, amount in each.items() if amount >= 1]
    parts = [({name: amount % 1}, 1) for name, amount in each.items() if amount % 1]
    return (Group("job", (*whole, *parts), None),) if whole or parts else ()


def _unread(budget: Budget) -> Iterator[Line]:
    if budget.groups is None:
        why = "; ".join(budget.unread) or "unknown command"
        text = f"what the job needs can't be read from the command: {why}"
        yield Line("unknown", text, "set needs.gpus, needs.cpus or needs.bundles in the preset")
    else:
        yield from (Line("doubt", f"not fully understood: {sentence}") for sentence in budget.unread)
    if budget.framework == "Ray" and all(group.name == "entrypoint" for group in budget.groups or ()):
        text = "only the command itself is counted; what it asks Ray for at run time is unknown"
        yield Line("doubt", text, "set needs.gpus, needs.cpus or needs.bundles in the preset")


def _otherwise(budget: Budget, needs: Needs) -> Iterator[Line]:
    """Where the preset says something else than the command."""
    for key, resource, said in (("needs.gpus", "GPU", needs.gpus), ("needs.cpus", "CPU", needs.cpus)):
        asked = budget.amount(resource)
        if budget.framework != "Ray" and said is not None and asked is not None and said != asked:
            asks = f"{count(asked)} {resource}{'s' if asked > 1 or not asked else ''}"
            yield Line("doubt", f"{key} is {count(said)}, but the command asks for {asks}", f"{key}: {count(asked)}")
