"""What is submitted to Ray for a preset, or once more for a job: the job with its secrets, its packed folder, its id and metadata."""

from __future__ import annotations

import asyncio
import getpass
import hashlib
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from cockpit.acts.launch.package import Hear, Package, find_contents, pack, pack_archive
from cockpit.config.document import Document, InputError, read_text
from cockpit.model import Actor, Job
from cockpit.presets import JobSpec, Preset, doubts, fill_preset, find_preset, read_preset, redact_preset
from cockpit.presets.folder import is_path, is_uri
from cockpit.presets.preset import SUBMISSION
from cockpit.presets.save import UPLOADED, entrypoint_fields, escape_placeholders, map_texts, split_runtime_env, user_metadata
from cockpit.secrets import HIDDEN, redact, redact_variable, redact_within
from cockpit.sources.ray.http import Hide
from cockpit.sources.ray.submit import AGAIN, FILE, USER, Before, LaunchOrigin, Submission, Submissions
from cockpit.sources.ray.wire import PRESET
from cockpit.sources.source import SourceError
from cockpit.trust import why_not_ours

TEMPLATE = "{name}-{time}"
MIN_SECRET_CHARS = 4
"""Characters. A shorter one would be hidden in every other word."""
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_LISTS = ("pip", "uv")
"""Of Ray's runtime_env: a list of packages, or the name of a local file that holds it."""


class Order(msgspec.Struct, frozen=True):
    """What is to be launched. Secrets are in it: it is never drawn, logged or kept."""

    preset: Preset
    """What is checked; without secrets, or with the names of those that come from the environment."""
    shown: JobSpec
    """What of its job may be seen."""
    job: JobSpec
    hidden: frozenset[str]
    template: str
    origin: LaunchOrigin
    submission: Callable[[Package | None], Submission]
    """All but its id and its key. Raises `InputError`."""
    uploaded: tuple[str, ...] = ()
    """Packages that Ray must have already."""
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Order({self.origin!r})"


def order_of(preset: Preset, env: Mapping[str, str]) -> Order:
    """With every `${NAME}` in place. Raises `InputError`."""
    filled = fill_preset(preset, env)
    job, shown = filled.preset.job, redact_preset(preset).job
    if job is None or shown is None:
        raise InputError(f"{preset.path}: has no `job`: nothing to launch")
    return Order(
        preset=preset,
        shown=shown,
        job=job,
        hidden=filled.hidden,
        template=template_of(filled.preset),
        origin=LaunchOrigin(PRESET, preset.name),
        submission=partial(submission_of, preset, job),
        notes=(*doubts(preset), *_note_files(preset, job)),
    )


def submission_of(preset: Preset, job: JobSpec, package: Package | None) -> Submission:
    """All but its id and its key; `job` is filled in. Raises `InputError`."""
    runtime_env = {name: _portable(preset, name, value) for name, value in job.runtime_env.items() if name != "excludes"}
    folder = package.uri if package else job.working_dir
    marks = {PRESET: preset.name, FILE: f"{socket.gethostname()}:{preset.path.absolute()}"}
    return build_submission(replace(job, runtime_env=runtime_env, working_dir=folder), marks)


def build_submission(job: JobSpec, marks: Mapping[str, str]) -> Submission:
    """The job in Ray's words, with what tells where it comes from."""
    env = {"env_vars": dict(job.env)} if job.env else {}
    folder = {"working_dir": job.working_dir} if job.working_dir is not None else {}
    return Submission(
        entrypoint=job.entrypoint,
        submission_id="",
        runtime_env={**job.runtime_env, **env, **folder},
        metadata={**job.metadata, **marks, USER: user()},
        entrypoint_num_cpus=job.entrypoint_num_cpus,
        entrypoint_num_gpus=job.entrypoint_num_gpus,
        entrypoint_memory=job.entrypoint_memory,
        entrypoint_resources=dict(job.entrypoint_resources) or None,
    )


def _note_files(preset: Preset, job: JobSpec) -> Iterator[str]:
    """Whose content is sent to Ray, which whoever launches the preset should know."""
    for name, value in job.runtime_env.items():
        if _is_file(name, value):
            yield f"runtime_env.{name} is read from {beside(preset, value)}"


def _is_file(name: str, value: Any) -> bool:
    return isinstance(value, str) and (name in _LISTS or (name == "conda" and value.endswith((".yaml", ".yml"))))


def _portable(preset: Preset, name: str, value: Any) -> Any:
    """The value without files of this host: their content is sent instead, as Ray's own client does it."""
    if _is_file(name, value):
        text = _read(preset, f"runtime_env.{name}", value)
        return Document(text, value).data if name == "conda" else [line for line in text.splitlines() if line.strip()]
    local = [each for each in value if isinstance(each, str) and not is_uri(each)] if name == "py_modules" else []
    if local:
        raise InputError(f"{preset.path}: job.runtime_env.py_modules: {local[0]} is on this host; put it in working_dir, or give a URI")
    return value


def _read(preset: Preset, key: str, name: str) -> str:
    try:
        return read_text(beside(preset, name))
    except InputError as error:
        raise InputError(f"{preset.path}: job.{key}: {error}") from None
    except (OSError, ValueError, RuntimeError) as error:  # a null byte; nobody's home
        raise InputError(f"{preset.path}: job.{key}: {name} can't be read: {getattr(error, 'strerror', None) or error}") from None


def beside(preset: Preset, name: str) -> Path:
    """A file that a preset names is meant from where the preset lies."""
    return preset.path.absolute().parent / Path(name).expanduser()


async def pack_working_dir(job: JobSpec, hear: Hear) -> Package | None:
    """The job's folder, packed in a thread that ends with whoever waits for it; `None` where there is none, or Ray fetches it itself.

    Raises `InputError`.
    """
    if job.working_dir is None or is_uri(job.working_dir):
        return None
    place, stop, loop = Path(job.working_dir), threading.Event(), asyncio.get_running_loop()

    def tell(number: int, of: int) -> None:
        loop.call_soon_threadsafe(hear, number, of)

    def work() -> Package:
        if os.path.isfile(place):
            return pack_archive(place)
        contents = find_contents(place, tuple(job.runtime_env.get("excludes") or ()), stopped=stop.is_set)
        return pack(contents, tell, stopped=stop.is_set)

    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([task])
        if task.exception() is None:
            task.result().data.close()
        raise


def content_of(shown: JobSpec, package: Package | None) -> str:
    """The same for the same job and folder. Made of what may be seen, so that nobody can guess a secret from it."""
    text = msgspec.json.encode(shown, order="deterministic") + (package.uri.encode() if package else b"")
    return hashlib.sha256(text).hexdigest()[:16]


def template_of(preset: Preset) -> str:
    """Of the job's id, with `{time}` in it if there is one; `preset` is filled in. Raises `InputError`."""
    template = ((preset.job.submission_id if preset.job else None) or TEMPLATE).replace("{name}", fit_for_id(preset.name) or "preset")
    if not re.fullmatch(SUBMISSION, template.replace("{time}", "20261121-1828-22")):
        raise InputError(f"{preset.path}: job.submission_id: {template} can't be an id: at most 100 letters, digits and . _ -")
    return template


def fit_for_id(name: str) -> str:
    """What of a name can be part of an id."""
    return _UNFIT.sub("-", name).strip("-.")


def name_for(template: str, moment: float, taken: Collection[str]) -> str:
    """The id that everybody makes of this template who knows of the same jobs in the same minute."""
    first = template.replace("{time}", time.strftime("%Y%m%d-%H%M", time.gmtime(moment)))
    numbered = (f"{first}-{number}" for number in range(2, len(taken) + 3))
    return next(name for name in (first, *numbered) if name not in taken)


def preset_of_job(job: Job) -> Preset | str:
    """The preset that it says it was launched from, as it is now; or why that is not to be had, in a sentence."""
    host, _, path = (job.metadata or {}).get(FILE, "").partition(":")
    try:
        if host == socket.gethostname() and os.path.isfile(path):  # unlike Path's it raises nothing below another's home
            return _read_own_preset(Path(path))
        return _find_by_name(job.preset or "")
    except InputError as error:
        return f"Job {job.id} was launched from the preset {job.preset}: {error}"


def _find_by_name(name: str) -> Preset:
    """Whoever submits a job writes there what they like: a path is none of the presets that this user has."""
    if is_path(name):
        raise InputError("not the name of a preset")
    return find_preset(name)


def _read_own_preset(path: Path) -> Preset:
    """Another user's file would be launched with our environment."""
    if (reason := why_not_ours(path)) is not None:
        raise InputError(f"{path}: {reason}: read it first, then launch it by this path")
    return read_preset(path)


def user() -> str:
    """Who this is, for whoever finds the job there already."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):
        return socket.gethostname()


def secret_hider(values: Iterable[str]) -> Hide:
    """Takes these values out of a text, also as JSON and Python write them, and line by line."""
    known = [part for value in values for part in (value, *value.splitlines()) if len(part) >= MIN_SECRET_CHARS]
    forms = {form for part in known for form in (part, json.dumps(part)[1:-1], repr(part)[1:-1])}
    if not forms:
        return lambda text: text
    pattern = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))))
    return lambda text: pattern.sub(HIDDEN, text)


MAX_ID_CHARS = 80
"""Characters of the first job's id in those that are made of it: Ray's limit leaves room for the time."""
HEAD = "ray.io/node-id"
"""By this label Ray puts a command that reserves nothing onto the head, then as now."""
REDACTED = "<redacted>"
"""What Ray, since 2.59, may answer in place of a variable."""


async def order_of_job(submissions: Submissions, job: Job) -> Order:
    """What submits a job again that was launched from no preset. What cockpit shows of it has its secrets taken out: Ray is asked anew.

    Raises `InputError` where Ray does not tell enough of it, and `SourceError`.
    """
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
        hidden=fill_preset(_preset(first, spec), {}).hidden,
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
        raise InputError(f"Ray does not report the entrypoint of job {job.id}")
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
            "Save the job as a preset (w): launching that preset uploads the folder"
        )


def _modules(job: JobSpec) -> Iterator[str]:
    modules = job.runtime_env.get("py_modules")
    yield from (each for each in modules if isinstance(each, str)) if isinstance(modules, list) else ()


def _redact(job: JobSpec) -> JobSpec:
    """Fit to be shown."""
    return job.with_texts(redact, redact_variable, redact_within)


def _preset(name: str, job: JobSpec) -> Preset:
    """As if somebody had written it down; it lies nowhere."""
    written = job.with_texts(
        escape_placeholders, lambda _, value: escape_placeholders(value), lambda value: map_texts(value, escape_placeholders)
    )
    name = fit_for_id(name[:MAX_ID_CHARS]) or "job"  # anybody may have written it, and somebody may have to type it
    return Preset(name, Path(name), job=written)
