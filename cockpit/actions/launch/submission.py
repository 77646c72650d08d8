"""Makes the submission of a preset's job, or of a job that is launched again: command, secrets, packed folder, id and metadata."""

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
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from cockpit.actions.launch.package import OnPacked, Package, find_contents, pack, pack_archive
from cockpit.config.document import Document, InputError, read_text
from cockpit.model import Job
from cockpit.presets import JobSpec, Preset, doubts, fill_preset, find_preset, read_preset, redact_preset
from cockpit.presets.folder import is_path, is_uri
from cockpit.presets.preset import SUBMISSION
from cockpit.presets.save import UPLOADED, entrypoint_fields, escape_placeholders, map_texts, split_runtime_env, user_metadata
from cockpit.secrets import HIDDEN, redact, redact_variable, redact_within
from cockpit.sources.ray.http import Hide
from cockpit.sources.ray.submit import AGAIN, FILE, USER, LaunchOrigin, Submission, Submissions
from cockpit.sources.ray.wire import PRESET
from cockpit.sources.source import SourceError
from cockpit.trust import why_not_ours

TEMPLATE = "{name}-{time}"
MIN_SECRET_CHARS = 4
"""A shorter value is not hidden, because it occurs in many other words."""
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9._-]+")
_PACKAGE_LISTS = ("pip", "uv")
"""Fields of Ray's runtime_env with a list of packages, or the name of a local file with such a list."""
MAX_ID_CHARS = 80
"""Characters of the first job's id in the ids of its relaunches: with the time they stay within Ray's limit."""
NODE_ID_LABEL = "ray.io/node-id"
"""With this label Ray places a command that reserves nothing on the head node; it says nothing about a choice of nodes."""
REDACTED = "<redacted>"
"""Ray 2.59 and later may answer so in place of a variable's value."""


class Order(msgspec.Struct, frozen=True):
    """A job that is to be launched. It contains secrets, so it is never drawn, logged or stored."""

    preset: Preset
    """The preset to check: its secrets are removed, or are names of environment variables."""
    shown: JobSpec
    """The job without secrets, to be shown."""
    job: JobSpec
    hidden: frozenset[str]
    """The values of secrets that must be removed from texts."""
    template: str
    origin: LaunchOrigin
    submission: Callable[[Package | None], Submission]
    """Makes the submission, without id and key. Raises `InputError`."""
    uploaded: tuple[str, ...] = ()
    """Packages that Ray must already have."""
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Order({self.origin!r})"


def order_of(preset: Preset, env: Mapping[str, str]) -> Order:
    """Return the order for a preset's job, with every `${NAME}` replaced. Raises `InputError`."""
    filled = fill_preset(preset, env)
    job, shown = filled.preset.job, redact_preset(preset).job
    if job is None or shown is None:
        raise InputError(f"{preset.path}: has no `job`: nothing to launch")
    # The content of these files is sent to Ray, so the plan names them.
    files = (
        f"runtime_env.{name} is read from {file_beside(preset, value)}"
        for name, value in job.runtime_env.items()
        if _is_local_file(name, value)
    )
    return Order(
        preset=preset,
        shown=shown,
        job=job,
        hidden=filled.hidden,
        template=template_of(filled.preset),
        origin=LaunchOrigin(PRESET, preset.name),
        submission=partial(submission_of, preset, job),
        notes=(*doubts(preset), *files),
    )


def submission_of(preset: Preset, job: JobSpec, package: Package | None) -> Submission:
    """Return the submission without id and key. In `job` every `${NAME}` is replaced. Raises `InputError`."""
    runtime_env = {name: _without_local_files(preset, name, value) for name, value in job.runtime_env.items() if name != "excludes"}
    folder = package.uri if package else job.working_dir
    marks = {PRESET: preset.name, FILE: f"{socket.gethostname()}:{preset.path.absolute()}"}
    return build_submission(replace(job, runtime_env=runtime_env, working_dir=folder), marks)


def build_submission(job: JobSpec, marks: Mapping[str, str]) -> Submission:
    """Return the job as Ray expects it. `marks` is metadata that says where the job comes from."""
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


def _is_local_file(name: str, value: Any) -> bool:
    return isinstance(value, str) and (name in _PACKAGE_LISTS or (name == "conda" and value.endswith((".yaml", ".yml"))))


def _without_local_files(preset: Preset, name: str, value: Any) -> Any:
    """Return a value of the runtime_env with the content of local files in place of their names, as Ray's own client does it."""
    key = f"{preset.path}: job.runtime_env.{name}"
    if _is_local_file(name, value):
        try:
            text = read_text(file_beside(preset, value))
        except InputError as error:
            raise InputError(f"{key}: {error}") from None
        except (OSError, ValueError, RuntimeError) as error:  # ValueError: a null byte in the name; RuntimeError: ~ of an unknown user
            raise InputError(f"{key}: {value} can't be read: {getattr(error, 'strerror', None) or error}") from None
        return Document(text, value).data if name == "conda" else [line for line in text.splitlines() if line.strip()]
    local = [each for each in value if isinstance(each, str) and not is_uri(each)] if name == "py_modules" else []
    if local:
        raise InputError(f"{key}: {local[0]} is on this host; put it in working_dir, or give a URI")
    return value


def file_beside(preset: Preset, name: str) -> Path:
    """Return the path of a file that a preset names, relative to the preset's own folder."""
    return preset.path.absolute().parent / Path(name).expanduser()


async def pack_working_dir(job: JobSpec, on_packed: OnPacked) -> Package | None:
    """Pack the job's folder in a thread; `None` if there is no folder, or Ray fetches it itself. Raises `InputError`.

    If the caller is cancelled, the thread stops too.
    """
    if job.working_dir is None or is_uri(job.working_dir):
        return None
    place, stop, loop = Path(job.working_dir), threading.Event(), asyncio.get_running_loop()

    def report(number: int, of: int) -> None:
        loop.call_soon_threadsafe(on_packed, number, of)

    def work() -> Package:
        if os.path.isfile(place):
            return pack_archive(place)
        contents = find_contents(place, tuple(job.runtime_env.get("excludes") or ()), stopped=stop.is_set)
        return pack(contents, report, stopped=stop.is_set)

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
    """Return a hash of job and folder. Secrets are not part of it, so that nobody can guess them from the hash."""
    text = msgspec.json.encode(shown, order="deterministic") + (package.uri.encode() if package else b"")
    return hashlib.sha256(text).hexdigest()[:16]


def template_of(preset: Preset) -> str:
    """Return the template of the job's id; it may contain `{time}`. In `preset` every `${NAME}` is replaced. Raises `InputError`."""
    template = ((preset.job.submission_id if preset.job else None) or TEMPLATE).replace("{name}", fit_for_id(preset.name) or "preset")
    if not re.fullmatch(SUBMISSION, template.replace("{time}", "20261121-1828-22")):
        raise InputError(f"{preset.path}: job.submission_id: {template} can't be an id: at most 100 letters, digits and . _ -")
    return template


def fit_for_id(name: str) -> str:
    """Return the name with only characters that an id may have."""
    return _NOT_IN_IDS.sub("-", name).strip("-.")


def name_for(template: str, moment: float, taken: Collection[str]) -> str:
    """Return the job's id. Two cockpits with the same template, minute and taken ids make the same id."""
    first = template.replace("{time}", time.strftime("%Y%m%d-%H%M", time.gmtime(moment)))
    numbered = (f"{first}-{number}" for number in range(2, len(taken) + 3))
    return next(name for name in (first, *numbered) if name not in taken)


def preset_of_job(job: Job) -> Preset | str:
    """Return the preset that the job's metadata names, as it is now; or a sentence that says why it can't be used.

    Anybody can write the metadata of a job.
    """
    host, _, path = (job.metadata or {}).get(FILE, "").partition(":")
    name = job.preset or ""
    problem = f"Job {job.id} was launched from the preset {job.preset}: "
    try:
        if host == socket.gethostname() and os.path.isfile(path):  # unlike Path.is_file it returns False below another user's home
            # A preset of another user would be launched with our environment.
            if (reason := why_not_ours(Path(path))) is not None:
                return f"{problem}{Path(path)}: {reason}: read it first, then launch it by this path"
            return read_preset(Path(path))
        # The name must be the name of one of this user's presets, not the path of any file.
        return f"{problem}not the name of a preset" if is_path(name) else find_preset(name)
    except InputError as error:
        return f"{problem}{error}"


def user() -> str:
    """Return the user and host of this cockpit, for others who see the job."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):
        return socket.gethostname()


def secret_hider(values: Iterable[str]) -> Hide:
    """Return a function that hides these values in a text: whole, line by line, and as JSON and Python write them."""
    known = [part for value in values for part in (value, *value.splitlines()) if len(part) >= MIN_SECRET_CHARS]
    forms = {form for part in known for form in (part, json.dumps(part)[1:-1], repr(part)[1:-1])}
    if not forms:
        return lambda text: text
    pattern = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))))
    return lambda text: pattern.sub(HIDDEN, text)


async def order_of_job(submissions: Submissions, job: Job) -> Order:
    """Return the order that submits a job without a preset again. Raises `InputError` if Ray reports too little of it, and `SourceError`.

    The job in a snapshot has no secrets, so Ray is asked for it again.
    """
    # It must be the very job that was shown.
    if job.submission is None:
        raise InputError(f"Job {job.id} was not submitted to Ray: its driver was started by hand; start it by hand again")
    before = await submissions.before(job.submission)
    if before is None:
        raise InputError(f"Ray no longer lists job {job.id}")
    if before.started != job.started:
        raise InputError(f"Job {job.id} is not the one that was shown: its id was reused")
    if not before.entrypoint:
        raise InputError(f"Ray does not report the entrypoint of job {job.id}")

    # The job as it was submitted; nothing in it is a name to be replaced.
    reserved, notes = await _reserved_for_command(submissions, before.id)
    env, folder, rest = split_runtime_env(before.runtime_env)
    spec = JobSpec(before.entrypoint, folder, env, rest, metadata=user_metadata(before.metadata), **reserved)
    if hidden := [variable for variable, value in spec.env.items() if value == REDACTED]:
        raise InputError(
            f"Ray hides the value of {', '.join(hidden)}. Save the job as a preset (w): it takes the value from your environment"
        )
    if spec.working_dir is not None and not is_uri(spec.working_dir):
        raise InputError(
            f"Job {job.id} had the working_dir {spec.working_dir}, a folder that Ray can't fetch. "
            "Save the job as a preset (w): launching that preset uploads the folder"
        )
    modules = spec.runtime_env.get("py_modules")
    uris = [spec.working_dir, *(modules if isinstance(modules, list) else ())]
    uploaded = tuple(uri for uri in uris if isinstance(uri, str) and uri.startswith(UPLOADED))
    await check_uploaded(submissions, uploaded)

    first = before.metadata.get(AGAIN) or before.id
    shown = spec.with_texts(redact, redact_variable, redact_within)
    preset = _as_preset(first, shown)
    return Order(
        preset=preset,
        shown=shown,
        job=spec,
        hidden=fill_preset(_as_preset(first, spec), {}).hidden,
        template=template_of(preset),
        origin=LaunchOrigin(AGAIN, first),
        submission=lambda _: build_submission(spec, {AGAIN: first}),
        uploaded=uploaded,
        notes=(*notes, *(f"it uses the working_dir uploaded for it earlier, {uri}, which Ray still has" for uri in uploaded)),
    )


async def check_uploaded(submissions: Submissions, uploaded: tuple[str, ...]) -> None:
    """Raise `InputError` if Ray no longer has one of these packages."""
    for uri in uploaded:
        if not await submissions.has(uri.removeprefix(UPLOADED)):
            raise InputError(
                f"Ray no longer has the folder uploaded for this job ({uri}): Ray deletes it some minutes after the last job that used it. "
                "Save the job as a preset (w), set its working_dir, and launch the preset"
            )


async def _reserved_for_command(submissions: Submissions, name: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the resources that were reserved for the job's command, and notes. Only the actor that ran the command shows them."""
    unknown = "Ray no longer reports what was reserved for its command (entrypoint_num_gpus, …): this time nothing is reserved for it"
    try:
        supervisor = await submissions.supervisor(name)
    except SourceError as error:
        return {}, (f"{unknown} ({error})",)
    if supervisor is None:
        return {}, (unknown,)
    labels = ", ".join(f"{key}={value}" for key, value in supervisor.labels.items() if key != NODE_ID_LABEL)
    notes = (f"it ran on a node with {labels}; now it may run on any node",) if labels else ()
    return entrypoint_fields(supervisor.needs), notes


def _as_preset(name: str, job: JobSpec) -> Preset:
    """Return the job as a preset without a file. A `${NAME}` in it is plain text, not a variable."""
    written = job.with_texts(
        escape_placeholders, lambda _, value: escape_placeholders(value), lambda value: map_texts(value, escape_placeholders)
    )
    name = fit_for_id(name[:MAX_ID_CHARS]) or "job"  # anybody may have chosen the name, and the operator may have to type it
    return Preset(name, Path(name), job=written)
