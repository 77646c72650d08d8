"""A job that was launched from no preset, made ready to be launched again as Ray tells of it now.

What cockpit shows of a job has its secrets taken out, so Ray is asked for it anew; what it answers goes back to Ray and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from cockpit.acts.launch.package import is_uri
from cockpit.acts.launch.submission import Order, build_submission, fit_for_id, template_of
from cockpit.config.document import InputError
from cockpit.model import Actor, Job
from cockpit.presets import JobSpec, Preset, launchable
from cockpit.presets.save import UPLOADED, entrypoint_fields, escape_placeholders, split_runtime_env, user_metadata
from cockpit.secrets import redact, redact_variable, redact_within
from cockpit.sources.ray.submit import AGAIN, Before, LaunchOrigin, Submissions
from cockpit.sources.source import SourceError

MAX_ID_CHARS = 80
"""Characters of the first job's id in those that are made of it: Ray's limit leaves room for the time."""
HEAD = "ray.io/node-id"
"""By this label Ray puts a command that reserves nothing onto the head, then as now."""
REDACTED = "<redacted>"
"""What Ray, since 2.59, may answer in place of a variable."""


async def order_of_job(submissions: Submissions, job: Job) -> Order:
    """What submits this job again. Raises `InputError` where Ray doesn't tell enough of it, and `SourceError`."""
    before = await _before(submissions, job)
    supervisor, notes = await _supervisor(submissions, before.id)
    spec = _spec(before, supervisor)
    _check_told(job.id, spec)
    uploaded = tuple(uri for uri in (spec.working_dir, *_modules(spec)) if uri and uri.startswith(UPLOADED))
    await check_uploaded(submissions, uploaded)
    first = before.metadata.get(AGAIN) or before.id
    preset = _preset(first, _redact(spec))
    return Order(
        preset=preset,
        shown=_redact(spec),
        job=spec,
        hidden=launchable(_preset(first, spec), {}).hidden,
        template=template_of(preset),
        origin=LaunchOrigin(AGAIN, first),
        submission=lambda _: build_submission(spec, {AGAIN: first}),
        uploaded=uploaded,
        notes=(*notes, *(f"it uses the working_dir uploaded for it earlier, {uri}, which Ray still has" for uri in uploaded)),
    )


async def check_uploaded(submissions: Submissions, uploaded: tuple[str, ...]) -> None:
    """Raises `InputError` where Ray has a package no longer."""
    for uri in uploaded:
        if not await submissions.has(uri.removeprefix(UPLOADED)):
            raise InputError(
                f"Ray no longer has the folder uploaded for this job ({uri}): Ray deletes it some minutes after the last job that used it. "
                "Save the job as a preset (w), set its working_dir, and launch the preset"
            )


async def _before(submissions: Submissions, job: Job) -> Before:
    """The very job that is meant."""
    if job.submission is None:
        raise InputError(f"Job {job.id} was not submitted to Ray: its driver was started by hand; start it by hand again")
    before = await submissions.before(job.submission)
    if before is None:
        raise InputError(f"Ray no longer lists job {job.id}")
    if before.started != job.started:
        raise InputError(f"Job {job.id} is not the one that was shown: its id was reused")
    if not before.entrypoint:
        raise InputError(f"Ray doesn't report the entrypoint of job {job.id}")
    return before


async def _supervisor(submissions: Submissions, name: str) -> tuple[Actor | None, tuple[str, ...]]:
    """What has run its command: it alone tells what was held for that. With what must be said of it."""
    unknown = "Ray no longer reports what was reserved for its command (entrypoint_num_gpus, …): this time nothing is reserved for it"
    try:
        actor = await submissions.supervisor(name)
    except SourceError as error:
        return None, (f"{unknown} ({error})",)
    if actor is None:
        return None, (unknown,)
    labels = ", ".join(f"{key}={value}" for key, value in actor.labels.items() if key != HEAD)
    return actor, (f"it ran on a node with {labels}; now it may run on any node",) if labels else ()


def _spec(before: Before, supervisor: Actor | None) -> JobSpec:
    """As it was submitted; nothing in it is a name to be filled in."""
    env, folder, rest = split_runtime_env(before.runtime_env)
    own = entrypoint_fields(supervisor.needs) if supervisor else {}
    return JobSpec(before.entrypoint, folder, env, rest, metadata=user_metadata(before.metadata), **own)


def _check_told(name: str, job: JobSpec) -> None:
    """Raises `InputError` rather than submit what stands for something else."""
    if hidden := [variable for variable, value in job.env.items() if value == REDACTED]:
        raise InputError(
            f"Ray hides the value of {', '.join(hidden)}. Save the job as a preset (w): it takes the value from your environment"
        )
    if job.working_dir is not None and not is_uri(job.working_dir):
        raise InputError(
            f"Job {name} had the working_dir {job.working_dir}, a folder that Ray can't fetch. "
            "Save the job as a preset (w): a launch of that uploads the folder"
        )


def _modules(job: JobSpec) -> Iterator[str]:
    modules = job.runtime_env.get("py_modules")
    yield from (each for each in modules if isinstance(each, str)) if isinstance(modules, list) else ()


def _redact(job: JobSpec) -> JobSpec:
    """Fit to be shown."""
    return replace(
        job,
        entrypoint=redact(job.entrypoint),
        working_dir=job.working_dir and redact(job.working_dir),
        env={name: redact_variable(name, value) for name, value in job.env.items()},
        runtime_env=redact_within(job.runtime_env),
        metadata={name: redact_variable(name, value) for name, value in job.metadata.items()},
    )


def _preset(name: str, job: JobSpec) -> Preset:
    """As if somebody had written it down; it lies nowhere."""
    written = replace(
        job,
        entrypoint=escape_placeholders(job.entrypoint),
        working_dir=job.working_dir and escape_placeholders(job.working_dir),
        env=_within(job.env),
        runtime_env=_within(job.runtime_env),
        metadata=_within(job.metadata),
    )
    name = fit_for_id(name[:MAX_ID_CHARS]) or "job"  # anybody may have written it, and somebody may have to type it
    return Preset(name, Path(name), job=written)


def _within(value: Any) -> Any:
    if isinstance(value, str):
        return escape_placeholders(value)
    if isinstance(value, Mapping):
        return {key: _within(item) for key, item in value.items()}
    return [_within(item) for item in value] if isinstance(value, list) else value
