"""Writes a preset from a job that Ray knows and the Ray that it runs on, with names in place of secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from textwrap import wrap
from typing import Any, Final

import yaml

from cockpit.config.document import InputError
from cockpit.model import SUPERVISOR, Job, Snapshot
from cockpit.presets.save_ray import describe_ray
from cockpit.secrets import HIDDEN
from cockpit.text import clean

NOTHING: Final = Snapshot()
_FIELDS: Final = {"CPU": "entrypoint_num_cpus", "GPU": "entrypoint_num_gpus", "memory": "entrypoint_memory"}
UPLOADED: Final = "gcs://"
_PLACE: Final = r"\$(?=\{)"
_VARIABLE: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_BREAK: Final = r" (?=--|[+~]{0,2}[\w.@/]+=)"
_ODD_BREAKS: Final = "[\x85\u2028\u2029]"
"""Characters that only YAML takes for line breaks."""
_WIDE: Final = 100
_KEYS_OF_RAY: Final = ("job_submission_id", "job_name")
"""Keys that Ray itself writes into a job's metadata."""
_OUR_PREFIX: Final = "cockpit_"
"""Metadata that a launch writes begins with it."""


def preset_of(job: Job, snapshot: Snapshot = NOTHING, ray_env: Mapping[str, str] = {}) -> str:
    """Return the text of a preset with the job, and with the start of the snapshot's Ray.

    `ray_env`: the variables of Ray's processes, if they are known. Raises `InputError` if Ray does not report the job's entrypoint.
    """
    if not job.entrypoint:
        raise InputError(f"Ray does not report the entrypoint of {clean(job.id)}")
    secrets = _SecretNames()
    body = _lines("entrypoint", secrets.replace(escape_placeholders(job.entrypoint), "in the entrypoint"))

    env, folder, rest = split_runtime_env(job.runtime_env or {})
    if folder is not None and folder.startswith(UPLOADED):
        body += [f"# Its working_dir was uploaded as {clean(folder)}; Ray does not report from which folder.", "# working_dir: ."]
    elif folder is not None:
        body += _lines("working_dir", escape_placeholders(folder))
    if env:
        body += _lines("env", {name: secrets.replace_value(name, value) for name, value in env.items()})
    uploaded = [key for key, value in rest.items() if key == "py_modules" and UPLOADED in str(value)]
    body += [f"# {key} was uploaded to Ray; Ray does not report from which folders" for key in uploaded]
    if rest := {key: value for key, value in rest.items() if key not in uploaded}:
        body += _lines("runtime_env", map_texts(rest, lambda text: secrets.replace(escape_placeholders(text), "in runtime_env")))

    # The job's supervisor, an actor of Ray, holds the resources of the command itself.
    supervisor = next((actor for actor in snapshot.actors or () if actor.internal and actor.name == f"{SUPERVISOR}{job.submission}"), None)
    if supervisor is None:
        body.append("# Ray does not report what the command itself reserved: entrypoint_num_gpus, entrypoint_num_cpus.")
    else:
        for key, value in entrypoint_fields(supervisor.needs).items():
            body += [f"{key}: {value:.10g}"] if isinstance(value, float) else _lines(key, value)
    if metadata := user_metadata({name: value for name, value in (job.metadata or {}).items() if HIDDEN not in value}):
        body += _lines("metadata", {name: escape_placeholders(value) for name, value in metadata.items()})

    about = _dump([f"saved from job {clean(job.submission or job.id)}"]).removeprefix("- ").rstrip("\n")
    head = [f"about: {about}"]
    if secrets.needed:
        head += ["# Secrets are not saved. Set these variables in your environment before launching:"]
        head += [f"#   {variable}: {clean(meaning)}" for variable, meaning in secrets.needed.items()]

    # How Ray was started, with its unknown parts as comments above.
    ray, notes = describe_ray(snapshot, ray_env)
    ray_lines = [f"# {line}" for note in notes for line in wrap(f"{note}.", _WIDE)]
    if ray is not None:
        ray_lines = ["# How Ray was started, as far as its command lines show.", *ray_lines]
        ray_lines += _lines("ray", map_texts(ray, escape_placeholders))
    return "\n".join([*head, *ray_lines, "job:", *(f"  {line}" if line else "" for line in body), ""])


class _SecretNames:
    """Puts the name of a variable in place of each hidden secret."""

    def __init__(self) -> None:
        self.needed: dict[str, str] = {}
        """Variables that must be set for a launch, each with its meaning."""

    def replace_value(self, name: str, value: str) -> str:
        """Return the value of a variable with names in place of secrets. A secret value gets the variable's own name."""
        if value == HIDDEN and re.fullmatch(_VARIABLE, name):
            self.needed[name] = "a variable of the job"
            return f"${{{name}}}"
        return self.replace(escape_placeholders(value), f"in {name}")

    def replace(self, text: str, where: str) -> str:
        """Return the text with a name in place of each hidden secret."""
        first, *others = text.split(HIDDEN)
        for after in others:
            name = f"SECRET_{sum(variable.startswith('SECRET_') for variable in self.needed) + 1}"
            before = (first.split() or [""])[-1].rpartition("}")[2][-40:]
            self.needed[name] = f"{where}, after {before}" if before else where
            first += f"${{{name}}}{after}"
        return first


def escape_placeholders(text: str) -> str:
    """Escape `${NAME}`, so that the preset passes it on to the shell on the cluster."""
    return re.sub(_PLACE, "$$", text)


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with all its texts changed; keys stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: map_texts(item, change) for key, item in value.items()}
    return [map_texts(item, change) for item in value] if isinstance(value, list) else value


def split_runtime_env(runtime_env: Mapping[str, Any]) -> tuple[dict[str, str], str | None, dict[str, Any]]:
    """Return the variables, the folder and the rest of a runtime_env, without Ray's own keys and empty values."""
    known = {key: value for key, value in runtime_env.items() if not key.startswith("_") and value not in (None, {}, [])}
    env, folder = known.pop("env_vars", None), known.pop("working_dir", None)
    variables = {str(name): str(value) for name, value in env.items()} if isinstance(env, dict) else {}
    return variables, folder if isinstance(folder, str) and folder else None, known


def user_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata without the keys of Ray and of cockpit's launches."""
    return {name: value for name, value in metadata.items() if name not in _KEYS_OF_RAY and not name.startswith(_OUR_PREFIX)}


def entrypoint_fields(reserved: Mapping[str, float]) -> dict[str, Any]:
    """Return the resources that a command itself reserves, as keys of a preset's job."""
    known = {key: int(reserved[name]) if name == "memory" else reserved[name] for name, key in _FIELDS.items() if reserved.get(name)}
    others = {name: amount for name, amount in reserved.items() if name not in _FIELDS and amount}
    return {**known, **({"entrypoint_resources": others} if others else {})}


def _lines(key: str, value: Any) -> list[str]:
    """Return a key and its value as lines of YAML."""
    if isinstance(value, str) and (folded := _fold_command(key, value)):
        return folded
    return _dump({key: value}).removesuffix("\n").split("\n")


def _fold_command(key: str, text: str) -> list[str] | None:
    """Return a long command with one line for each flag; `None` if YAML would read back another text."""
    if len(text) <= _WIDE:
        return None
    lines: Iterable[str] = text.split("\n") if "\n" in text else re.split(_BREAK, text)
    found = [f"{key}: {'|' if chr(10) in text else '>'}-", *(f"  {line}" if line else "" for line in lines)]
    try:
        return found if yaml.safe_load("\n".join(found)) == {key: text} else None
    except yaml.YAMLError:
        return None


def _dump(value: Any) -> str:
    text = yaml.safe_dump(value, allow_unicode=True, sort_keys=False, width=1 << 20)
    if re.search(_ODD_BREAKS, text):
        return yaml.safe_dump(value, default_style='"', sort_keys=False, width=1 << 20)
    return text
