"""A preset made of a job that Ray knows, and of the Ray it runs on: what is told of them, with names in place of secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from textwrap import wrap
from typing import Any, Final

import yaml

from cockpit.config.document import InputError
from cockpit.model import SUPERVISOR, Job, Snapshot
from cockpit.presets.save_ray import SavedRay
from cockpit.secrets import HIDDEN
from cockpit.text import clean

NOTHING: Final = Snapshot()
_OWN: Final = {"CPU": "entrypoint_num_cpus", "GPU": "entrypoint_num_gpus", "memory": "entrypoint_memory"}
UPLOADED: Final = "gcs://"
_PLACE: Final = r"\$(?=\{)"
_VARIABLE: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_BREAK: Final = r" (?=--|[+~]{0,2}[\w.@/]+=)"
_ODD_BREAKS: Final = "[\x85\u2028\u2029]"
"""Line breaks to YAML alone."""
_WIDE: Final = 100
_RAYS: Final = ("job_submission_id", "job_name")
"""What Ray itself writes into a job's metadata."""
_OURS: Final = "cockpit_"
"""How marks of a launch begin."""


def preset_of(job: Job, snapshot: Snapshot = NOTHING, ray_env: Mapping[str, str] = {}) -> str:
    """The text of a preset's file: the job, and how the Ray of the snapshot was started.

    `ray_env`: variables of its Ray, where somebody knows them. The supervisor of the job holds what the command itself holds.
    Raises `InputError` where Ray does not tell how the job was started.
    """
    if not job.entrypoint:
        raise InputError(f"Ray does not report the entrypoint of {clean(job.id)}")
    supervisor = next((actor for actor in snapshot.actors or () if actor.internal and actor.name == f"{SUPERVISOR}{job.submission}"), None)
    return _Saving(job).text(None if supervisor is None else supervisor.needs, SavedRay(snapshot, ray_env))


class _Saving:
    """One job on its way to a file: the secrets met so far get names."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._set: dict[str, str] = {}
        """Variables that must be set for a launch, with what each is for."""

    def text(self, own: Mapping[str, float] | None, ray: SavedRay) -> str:
        """The whole file: its head comes last, when all secrets are known."""
        body = [*self._entrypoint(), *self._environment(), *_own_resource_lines(own), *self._metadata()]
        return "\n".join([*self._head(), *_ray_lines(ray), "job:", *(f"  {line}" if line else "" for line in body), ""])

    def _head(self) -> list[str]:
        name = clean(self._job.submission or self._job.id)
        lines = [f"about: {_scalar(f'saved from job {name}')}"]
        if self._set:
            lines += ["# Secrets are not saved. Set these variables in your environment before launching:"]
            lines += [f"#   {variable}: {clean(meaning)}" for variable, meaning in self._set.items()]
        return lines

    def _entrypoint(self) -> list[str]:
        return _lines("entrypoint", self._open(escape_placeholders(self._job.entrypoint or ""), "in the entrypoint"))

    def _environment(self) -> list[str]:
        env, folder, rest = split_runtime_env(self._job.runtime_env or {})
        lines = [] if folder is None else _folder(folder)
        if env:
            lines += _lines("env", {name: self._variable(name, value) for name, value in env.items()})
        uploaded = [key for key, value in rest.items() if key == "py_modules" and UPLOADED in str(value)]
        lines += [f"# {key} was uploaded to Ray; Ray does not report from which folders" for key in uploaded]
        if rest := {key: value for key, value in rest.items() if key not in uploaded}:
            lines += _lines("runtime_env", map_texts(rest, lambda text: self._open(escape_placeholders(text), "in runtime_env")))
        return lines

    def _metadata(self) -> list[str]:
        told = {name: value for name, value in (self._job.metadata or {}).items() if HIDDEN not in value}
        kept = user_metadata(told)
        return _lines("metadata", {name: escape_placeholders(value) for name, value in kept.items()}) if kept else []

    def _variable(self, name: str, value: str) -> str:
        if value == HIDDEN and re.fullmatch(_VARIABLE, name):
            self._set[name] = "a variable of the job"
            return f"${{{name}}}"
        return self._open(escape_placeholders(value), f"in {name}")

    def _open(self, text: str, where: str) -> str:
        """The text with a name in place of each secret that was taken out of it."""
        first, *others = text.split(HIDDEN)
        for after in others:
            name = f"SECRET_{sum(variable.startswith('SECRET_') for variable in self._set) + 1}"
            led = (first.split() or [""])[-1].rpartition("}")[2][-40:]
            self._set[name] = f"{where}, after {led}" if led else where
            first += f"${{{name}}}{after}"
        return first


def _ray_lines(ray: SavedRay) -> list[str]:
    """What is unknown stands above, as comments."""
    notes = [f"# {line}" for note in ray.notes for line in wrap(f"{note}.", _WIDE)]
    if ray.section is None:
        return notes
    return ["# How Ray was started, as far as its command lines show.", *notes, *_lines("ray", map_texts(ray.section, escape_placeholders))]


def escape_placeholders(text: str) -> str:
    """`${NAME}` of the shell over there stays one."""
    return re.sub(_PLACE, "$$", text)


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """The same JSON with each text in it changed; keys stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: map_texts(item, change) for key, item in value.items()}
    return [map_texts(item, change) for item in value] if isinstance(value, list) else value


def split_runtime_env(runtime_env: Mapping[str, Any]) -> tuple[dict[str, str], str | None, dict[str, Any]]:
    """Variables, folder and the rest of a runtime_env, without what Ray has added to it, and what says nothing."""
    known = {key: value for key, value in runtime_env.items() if not key.startswith("_") and value not in (None, {}, [])}
    env, folder = known.pop("env_vars", None), known.pop("working_dir", None)
    variables = {str(name): str(value) for name, value in env.items()} if isinstance(env, dict) else {}
    return variables, folder if isinstance(folder, str) and folder else None, known


def user_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """What neither Ray nor a launch has written there."""
    return {name: value for name, value in metadata.items() if name not in _RAYS and not name.startswith(_OURS)}


def entrypoint_fields(own: Mapping[str, float]) -> dict[str, Any]:
    """What a command itself holds, as keys of a preset's job."""
    known = {key: int(own[name]) if name == "memory" else own[name] for name, key in _OWN.items() if own.get(name)}
    others = {name: amount for name, amount in own.items() if name not in _OWN and amount}
    return {**known, **({"entrypoint_resources": others} if others else {})}


def _folder(folder: str) -> list[str]:
    if not folder.startswith(UPLOADED):
        return _lines("working_dir", escape_placeholders(folder))
    return [f"# Its working_dir was uploaded as {clean(folder)}; Ray does not report from which folder.", "# working_dir: ."]


def _own_resource_lines(own: Mapping[str, float] | None) -> list[str]:
    """What the command itself holds, beside its actors."""
    if own is None:
        return ["# Ray does not report what the command itself reserved: entrypoint_num_gpus, entrypoint_num_cpus."]
    fields = entrypoint_fields(own).items()
    return [line for key, value in fields for line in ([f"{key}: {value:.10g}"] if isinstance(value, float) else _lines(key, value))]


def _lines(key: str, value: Any) -> list[str]:
    if isinstance(value, str) and (folded := _fold_command(key, value)):
        return folded
    return _dump({key: value}).removesuffix("\n").split("\n")


def _fold_command(key: str, text: str) -> list[str] | None:
    """A long command with a line for each of its flags; `None` where it would not be read back as it is."""
    if len(text) <= _WIDE:
        return None
    lines: Iterable[str] = text.split("\n") if "\n" in text else re.split(_BREAK, text)
    found = [f"{key}: {'|' if chr(10) in text else '>'}-", *(f"  {line}" if line else "" for line in lines)]
    try:
        return found if yaml.safe_load("\n".join(found)) == {key: text} else None
    except yaml.YAMLError:
        return None


def _scalar(text: str) -> str:
    return _dump([text]).removeprefix("- ").rstrip("\n")


def _dump(value: Any) -> str:
    text = yaml.safe_dump(value, allow_unicode=True, sort_keys=False, width=1 << 20)
    if re.search(_ODD_BREAKS, text):
        return yaml.safe_dump(value, default_style='"', sort_keys=False, width=1 << 20)
    return text
