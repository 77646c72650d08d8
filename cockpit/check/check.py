"""Checks whether a preset's job fits now, later or never. Pure: the result depends only on the preset, its budget and one snapshot."""

from __future__ import annotations

from msgspec.structs import replace

from cockpit.budget import Budget, Group, Line, entrypoint_groups
from cockpit.check.gpus import gpu_memory
from cockpit.check.groups import PlacedGroups, place_groups, resource_names
from cockpit.check.hosts import host_lines
from cockpit.check.nodes import site_of
from cockpit.check.paths import path_lines
from cockpit.check.ports import Taken, port_lines
from cockpit.check.queue import EMPTY_QUEUE, queue_of
from cockpit.check.ray import ray_lines
from cockpit.check.result import CheckOutcome, judge
from cockpit.check.start import start_lines
from cockpit.check.worker_ports import worker_port_lines
from cockpit.config.thresholds import Limits
from cockpit.model import Snapshot
from cockpit.presets import JobSpec, Preset, RayStart
from cockpit.secrets import redact
from cockpit.text import count


def check(preset: Preset, budget: Budget, snapshot: Snapshot, limits: Limits | None = None, taken: Taken = frozenset()) -> CheckOutcome:
    """Check the preset. The verdict is the worst line's. `taken` has the ports of the preset's hosts on which a process listens."""
    limits = limits or Limits()
    budget = _with_needs_of_preset(preset, budget)
    if preset.job is not None:
        budget = _trust_running_job(preset.job.entrypoint, budget, snapshot)
    site = site_of(preset, snapshot, resource_names(budget.groups or ()))
    lines: list[Line] = []
    if isinstance(preset.ray, RayStart) and site.planned:
        lines += port_lines(preset.ray, taken)
    lines += start_lines(preset, site, snapshot)
    lines += budget.lines

    # Parts of the command that cockpit can't read.
    advice = "set needs.gpus, needs.cpus or needs.bundles in the preset, or --needs on the command line"
    if budget.gpus is None:
        first, *others = budget.unread or ("what the job needs is unknown",)
        lines += [Line("unknown", first, advice), *(Line("unknown", sentence) for sentence in others)]
    lines += [Line("doubt", sentence) for sentence in budget.doubts]
    if budget.framework == "Ray" and all(group.name == "entrypoint" for group in budget.groups or ()):
        lines.append(Line("doubt", "only the command itself is counted; what it asks Ray for at run time is unknown", advice))
    lines += path_lines(preset, budget)

    placed = PlacedGroups(())
    if budget.groups is not None:
        placed = place_groups(budget.groups, site, EMPTY_QUEUE if site.planned else queue_of(snapshot))
        lines += placed.lines
        # Needs of the preset that differ from the command's.
        for key, resource, given in (("needs.gpus", "GPU", preset.needs.gpus), ("needs.cpus", "CPU", preset.needs.cpus)):
            asked = budget.amount(resource)
            if budget.framework != "Ray" and given is not None and asked is not None and given != asked:
                asks = f"{count(asked)} {resource}{'s' if asked > 1 or not asked else ''}"
                lines.append(Line("doubt", f"{key} is {count(given)}, but the command asks for {asks}", f"{key}: {count(asked)}"))
    lines += gpu_memory(placed, site, snapshot, budget, preset.needs, limits)
    lines += host_lines(placed, site, preset, budget, limits)
    lines += worker_port_lines(placed, site, preset)
    lines += ray_lines(placed, site, snapshot, preset.needs, limits, budget.framework)
    return judge(budget, (Line(line.level, redact(line.text), line.change and redact(line.change)) for line in lines))


def _with_needs_of_preset(preset: Preset, budget: Budget) -> Budget:
    """Add the preset's own `needs` if the command does not show its needs."""
    if preset.job is None:
        return Budget(None, groups=())
    needs = preset.needs
    amounts = {"GPU": needs.gpus or 0.0, "CPU": needs.cpus or 0.0}
    bundles = [({name: 1.0}, int(amount)) for name, amount in amounts.items() if amount >= 1]
    bundles += [({name: amount % 1}, 1) for name, amount in amounts.items() if amount % 1]
    if needs.bundles:
        needed = Group("job", needs.bundles, needs.strategy)
    elif bundles:
        needed = Group("job", tuple(bundles), None)
    else:
        return budget
    if budget.framework not in (None, "Ray"):
        if budget.gpus is not None:
            return budget
        doubt = f"counted as its needs say, because {budget.unread[0] if budget.unread else 'the command is not understood'}"
        return replace(budget, groups=(*entrypoint_groups(own_needs(preset.job)), needed), unread=(), doubts=(*budget.doubts, doubt))
    return replace(budget, framework="Ray", groups=(*(budget.groups or entrypoint_groups(own_needs(preset.job))), needed), unread=())


def _trust_running_job(entrypoint: str, budget: Budget, snapshot: Snapshot) -> Budget:
    """Turn mistakes in the command into doubts if a job works with the same command: it may use another release or a fork."""
    # The job has succeeded, or one of its actors lives: a job that has only just begun may still fail.
    at_work = {actor.job for actor in snapshot.actors or () if actor.state == "ALIVE" and not actor.internal}
    same = (job for job in snapshot.jobs or () if job.entrypoint and job.entrypoint.split() == entrypoint.split())
    job = next((job for job in same if job.status == "SUCCEEDED" or (job.running and job.job in at_work)), None)
    if job is None:
        return budget
    how = "runs now" if job.running else "has succeeded"
    unknown = f"but job {job.id} {how} with this command; cockpit can't know what its script or release of {budget.framework} does instead"
    lines = (Line("doubt", f"{line.text}, {unknown}", line.change) if line.level == "never" else line for line in budget.lines)
    return replace(budget, lines=tuple(lines))


def own_needs(job: JobSpec) -> dict[str, float]:
    """Return the resources that Ray reserves for the command itself, without its actors."""
    needs = {"GPU": job.entrypoint_num_gpus, "CPU": job.entrypoint_num_cpus, "memory": job.entrypoint_memory, **job.entrypoint_resources}
    return {name: float(amount) for name, amount in needs.items() if amount}
