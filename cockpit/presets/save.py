"""A preset made of a job that Ray knows: what Ray tells of it, with names in place of secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import yaml

from cockpit.document import InputError
from cockpit.model import Actor, Job
from cockpit.text import HIDDEN, clean

_OWN: Final = {"CPU": "entrypoint_num_cpus", "GPU": "entrypoint_num_gpus", "memory": "entrypoint_memory"}
_UPLOADED: Final = "gcs://"
_NAME = re.compile(r"\$(?=\{[A-Za-z_])")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BREAK = re.compile(r" (?=--|[+~]{0,2}[\w.@/]+=)")
_ODD_BREAKS = re.compile("[\x85\u2028\u2029]")
"""Line breaks to YAML alone."""
_WIDE: Final = 100
_RAYS: Final = ("job_submission_id", "job_name")
"""What Ray itself writes into a job's metadata."""
_SUPERVISOR: Final = "_ray_internal_job_actor_"
_OURS: Final = "cockpit_"
"""How marks of a launch begin."""


def preset_of(job: Job, actors: Iterable[Actor] = ()) -> str:
    """The text of a preset's file. `actors`: those that are alive; the job's supervisor among them holds what the command itself holds.

    Raises `InputError` where Ray doesn't tell how the job was started.
    """
    if not job.entrypoint:
        raise InputError(f"Ray doesn't tell how {clean(job.id)} was started")
    supervisor = next((actor for actor in actors if actor.internal and actor.name == f"{_SUPERVISOR}{job.submission}"), None)
    return _Saving(job).text(None if supervisor is None else supervisor.needs)


class _Saving:
    """One job on its way to a file: the secrets met so far get names."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._set: dict[str, str] = {}
        """Variables that must be set for a launch, with what each is for."""

    def text(self, own: Mapping[str, float] | None) -> str:
        """The whole file: its head comes last, when all secrets are known."""
        body = [*self._entrypoint(), *self._environment(), *_held(own), *self._metadata()]
        return "\n".join([*self._head(), "job:", *(f"  {line}" if line else "" for line in body), ""])

    def _head(self) -> list[str]:
        name = clean(self._job.submission or self._job.id)
        lines = [f"about: {_scalar(f'as {name} was launched')}"]
        if self._set:
            lines += ["# Secrets were left out. Set in your environment before you launch it:"]
            lines += [f"#   {variable}: {clean(meaning)}" for variable, meaning in self._set.items()]
        return lines

    def _entrypoint(self) -> list[str]:
        return _lines("entrypoint", self._open(_escaped(self._job.entrypoint or ""), "in the entrypoint"))

    def _environment(self) -> list[str]:
        known = {key: value for key, value in (self._job.runtime_env or {}).items() if not key.startswith("_")}
        env, folder, rest = known.pop("env_vars", None), known.pop("working_dir", None), known
        lines = _folder(folder)
        if isinstance(env, dict) and env:
            lines += _lines("env", {str(name): self._variable(str(name), str(value)) for name, value in env.items()})
        uploaded = [key for key, value in rest.items() if key == "py_modules" and _UPLOADED in str(value)]
        lines += [f"# {key} was uploaded to Ray, which doesn't tell of which folders" for key in uploaded]
        if rest := {key: value for key, value in rest.items() if key not in uploaded and value not in (None, {}, [])}:
            lines += _lines("runtime_env", self._within(rest))
        return lines

    def _metadata(self) -> list[str]:
        told = {name: value for name, value in (self._job.metadata or {}).items() if HIDDEN not in value}
        kept = {name: value for name, value in told.items() if name not in _RAYS and not name.startswith(_OURS)}
        return _lines("metadata", {name: _escaped(value) for name, value in kept.items()}) if kept else []

    def _variable(self, name: str, value: str) -> str:
        if value == HIDDEN and _VARIABLE.fullmatch(name):
            self._set[name] = "a variable of the job"
            return f"${{{name}}}"
        return self._open(_escaped(value), f"in {name}")

    def _within(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._open(_escaped(value), "in runtime_env")
        if isinstance(value, Mapping):
            return {key: self._within(item) for key, item in value.items()}
        return [self._within(item) for item in value] if isinstance(value, list) else value

    def _open(self, text: str, where: str) -> str:
        """The text with a name in place of each secret that was taken out of it."""
        first, *others = text.split(HIDDEN)
        for after in others:
            name = f"SECRET_{sum(variable.startswith('SECRET_') for variable in self._set) + 1}"
            led = (first.split() or [""])[-1].rpartition("}")[2][-40:]
            self._set[name] = f"{where}, after {led}" if led else where
            first += f"${{{name}}}{after}"
        return first


def _escaped(text: str) -> str:
    """`${NAME}` of the shell over there stays one."""
    return _NAME.sub("$$", text)


def _folder(folder: Any) -> list[str]:
    if not isinstance(folder, str) or not folder:
        return []
    if not folder.startswith(_UPLOADED):
        return _lines("working_dir", _escaped(folder))
    return [f"# It ran in a folder that was uploaded as {clean(folder)}; Ray doesn't tell which one that was.", "# working_dir: ."]


def _held(own: Mapping[str, float] | None) -> list[str]:
    """What the command itself holds, beside its actors."""
    if own is None:
        return ["# Ray doesn't tell whether the command itself held GPUs or CPUs: entrypoint_num_gpus, entrypoint_num_cpus."]
    lines = [f"{key}: {own[name]:.10g}" for name, key in _OWN.items() if own.get(name)]
    others = {name: amount for name, amount in own.items() if name not in _OWN and amount}
    return [*lines, *(_lines("entrypoint_resources", others) if others else [])]


def _lines(key: str, value: Any) -> list[str]:
    if isinstance(value, str) and (folded := _folded(key, value)):
        return folded
    return _dumped({key: value}).removesuffix("\n").split("\n")


def _folded(key: str, text: str) -> list[str] | None:
    """A long command with a line for each of its flags; `None` where it would not be read back as it is."""
    if len(text) <= _WIDE:
        return None
    lines: Iterable[str] = text.split("\n") if "\n" in text else _BREAK.split(text)
    found = [f"{key}: {'|' if chr(10) in text else '>'}-", *(f"  {line}" if line else "" for line in lines)]
    try:
        return found if yaml.safe_load("\n".join(found)) == {key: text} else None
    except yaml.YAMLError:
        return None


def _scalar(text: str) -> str:
    return _dumped([text]).removeprefix("- ").rstrip("\n")


def _dumped(value: Any) -> str:
    text = yaml.safe_dump(value, allow_unicode=True, sort_keys=False, width=1 << 20)
    if _ODD_BREAKS.search(text):
        return yaml.safe_dump(value, default_style='"', sort_keys=False, width=1 << 20)
    return text
