"""`${NAME}` in a preset: filled in at launch from the environment, and what of it no eye may see."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from cockpit.config.document import Document, InputError, abbreviate_home
from cockpit.model import Value
from cockpit.presets.folder import is_uri, resolve_beside
from cockpit.presets.preset import JobSpec, Preset, RayNode, RayStart, SlurmStart
from cockpit.presets.ray_flags import FlagValue
from cockpit.secrets import HIDDEN, find_secrets, hide, redact_variable

NAME: Final = r"\$\$(?=\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}"
"""`$${`, which is `${` for a shell over there; or a name that is filled in."""
_ANY: Final = "any"
"""A value that by itself is no secret."""


class FilledPreset(Value, frozen=True):
    """A preset with every `${NAME}` filled in: for Ray, never for eyes. What is shown is `redact_preset(preset)`."""

    preset: Preset
    hidden: frozenset[str]
    """The values that are secret, some so short that they stand in other words too."""

    def __repr__(self) -> str:
        return f"FilledPreset({self.preset.name!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("preset", self.preset.name)]


def fill_preset(preset: Preset, env: Mapping[str, str]) -> FilledPreset:
    """Raises `InputError` where a variable is not set."""
    filling = _Filling(preset, env)
    ray = preset.ray and replace(preset.ray, env=filling.variables("ray.env", preset.ray.env))
    filled = replace(preset, ray=ray, job=preset.job and filling.job(preset.job))
    filling.refuse_missing()
    return FilledPreset(filled, frozenset(filter(None, filling.hidden)))


def redact_preset(preset: Preset) -> Preset:
    """The same preset, fit to be shown, logged and recorded: `${NAME}` as it was written, and no secret that stands there in plain text."""
    job = preset.job and preset.job.with_texts(_safe_text, _safe_value, _safe_any)
    return replace(preset, ray=preset.ray and _safe_start(preset.ray), job=job)


def doubts(preset: Preset) -> tuple[str, ...]:
    """What a reader of the preset should know about its secrets, in sentences that don't hold them."""
    found = [f"{where}: contains a secret in plain text; write ${{NAME}} to take it from your environment" for where in _plain(preset)]
    entrypoint = preset.job.entrypoint if preset.job else ""
    told = dict.fromkeys(name for name in variable_names(entrypoint) if _is_telling(name))
    found += [
        f"job.entrypoint: Ray shows ${{{name}}} to everybody who sees the job; set it in job.env and write ${name} here" for name in told
    ]
    return tuple(found)


def variable_names(text: str) -> list[str]:
    """The variables that a text takes from the environment."""
    return [match[1] for match in re.finditer(NAME, text) if match[1]]


class _Filling:
    """One launch: what is missing, and what became secret, on the way."""

    def __init__(self, preset: Preset, env: Mapping[str, str]) -> None:
        self._preset = preset
        self._env = env
        self._missing: list[tuple[str, str]] = []
        self.hidden: set[str] = set()

    def job(self, job: JobSpec) -> JobSpec:
        """Everything of a job that is text."""
        env = self.variables("job.env", job.env)
        folder = job.working_dir and self._text("job.working_dir", job.working_dir)
        return replace(
            job,
            entrypoint=self._text("job.entrypoint", job.entrypoint),
            working_dir=folder and _folder(self._preset, folder),
            env=env,
            runtime_env=self._any("job.runtime_env", job.runtime_env),
            submission_id=job.submission_id and self._open("job.submission_id", job.submission_id),
            metadata={name: self._open(f"job.metadata.{name}", value) for name, value in job.metadata.items()},
        )

    def variables(self, where: str, env: Mapping[str, str]) -> dict[str, str]:
        """Whatever comes from the environment into an environment is secret."""
        filled = {}
        for name, value in env.items():
            self.hidden |= {self._env[known] for known in variable_names(value) if known in self._env}
            filled[name] = self._text(f"{where}.{name}", value)
            if redact_variable(name, filled[name]) == HIDDEN:
                self.hidden.add(filled[name])
        return filled

    def refuse_missing(self) -> None:
        """Raises `InputError` with the place of the first that is not set, and the names of all."""
        if self._missing:
            where, name = self._missing[0]
            others = [f"${{{other}}}" for other in dict.fromkeys(other for _, other in self._missing) if other != name]
            also = f", nor {'is' if len(others) == 1 else 'are'} {', '.join(others)}" if others else ""
            over_there = f"; for a variable of the shell on the cluster, write $${{{name}}}" if where == "job.entrypoint" else ""
            raise mistake(self._preset, where, f"${{{name}}} is not set in your environment{also}{over_there}")

    def _open(self, where: str, text: str) -> str:
        """Of what Ray shows to everybody."""
        for name in variable_names(text):
            if _is_telling(name, self._env.get(name) or _ANY):
                raise mistake(self._preset, where, f"${{{name}}} is a secret, but Ray shows it to everybody")
        return self._text(where, text)

    def _any(self, where: str, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(where, value)
        if isinstance(value, Mapping):
            return {key: self._any(f"{where}.{key}", item) for key, item in value.items()}
        return [self._any(f"{where}[{index}]", item) for index, item in enumerate(value)] if isinstance(value, list) else value

    def _text(self, where: str, text: str) -> str:
        def fill(match: re.Match[str]) -> str:
            name = match[1]
            if name is None:
                return "$"
            if name not in self._env:
                self._missing.append((where, name))
            elif not _is_text(self._env[name]):
                raise mistake(self._preset, where, f"${{{name}}} is not UTF-8 in your environment")
            elif _is_telling(name, self._env[name]):
                self.hidden.add(self._env[name])
            return self._env.get(name, "")

        filled = re.sub(NAME, fill, text)
        self.hidden |= {filled[start:end] for start, end in find_secrets(filled)}
        return filled


def _is_text(value: str) -> bool:
    """Bytes that are no UTF-8 come as halves of pairs, which nothing can be sent with."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _is_telling(name: str, value: str = _ANY) -> bool:
    """Whether a variable is secret by its name, or by the shape of its value."""
    return redact_variable(name, value) != value


def _folder(preset: Preset, written: str) -> str:
    """Beside the file; a preset that lies in cockpit's own folder means where cockpit was started."""
    if is_uri(written):
        return written
    try:
        return str(resolve_beside(preset.path, written))
    except InputError as error:
        raise mistake(preset, "job.working_dir", str(error)) from error


def mistake(preset: Preset, where: str, text: str) -> InputError:
    """With the place in the preset's file, as long as that is there."""
    try:
        return Document.read(preset.path).mistake(where, text)
    except (OSError, InputError):  # gone or changed since it was read
        return InputError(f"{abbreviate_home(preset.path)}: {where}: {text}")


def _safe_start(ray: RayStart | SlurmStart) -> RayStart | SlurmStart:
    env = {name: _safe_value(name, value) for name, value in ray.env.items()}
    if isinstance(ray, SlurmStart):
        return replace(ray, head=_safe_flags(ray.head), workers=_safe_flags(ray.workers), env=env)
    return replace(ray, head=_safe_node(ray.head), workers=tuple(map(_safe_node, ray.workers)), env=env)


def _safe_node(node: RayNode) -> RayNode:
    return replace(node, flags=_safe_flags(node.flags))


def _safe_flags(flags: Mapping[str, FlagValue]) -> dict[str, FlagValue]:
    """`redis_password` is one of them."""
    return {name: redact_variable(name, value) if isinstance(value, str) else value for name, value in flags.items()}


def _safe_any(value: Any) -> Any:
    if isinstance(value, str):
        return _safe_text(value)
    if isinstance(value, Mapping):
        return {key: _safe_value(str(key), item) if isinstance(item, str) else _safe_any(item) for key, item in value.items()}
    return [_safe_any(item) for item in value] if isinstance(value, list) else value


def _safe_value(name: str, value: str) -> str:
    if variable_names(value) and not re.sub(NAME, "", value).strip():
        return value
    return redact_variable(name, _safe_text(value))


def _safe_text(text: str) -> str:
    """Without the secrets that stand there themselves, and not as the name of a variable."""
    return hide(text, [(start, end) for start, end in find_secrets(text) if "$" not in text[start:end]])


def _plain(preset: Preset) -> Iterator[str]:
    """The places of secrets in plain text, also where they have been taken out already."""
    ray, job = preset.ray, preset.job
    for where, env in (
        ("ray.env", ray.env if ray else {}),
        ("job.env", job.env if job else {}),
        ("job.metadata", job.metadata if job else {}),
    ):
        for name, value in env.items():
            if HIDDEN in _safe_value(name, value):
                yield f"{where}.{name}"
    for where, text in (("job.entrypoint", job.entrypoint), ("job.working_dir", job.working_dir or "")) if job else ():
        if HIDDEN in _safe_text(text):
            yield where
    if job and HIDDEN in str(_safe_any(job.runtime_env)):
        yield "job.runtime_env"
