"""Replaces `${NAME}` in a preset by values from the environment, and hides the secrets of a preset."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from cockpit.config.document import Document, InputError, abbreviate_home
from cockpit.model import Value
from cockpit.presets.folder import is_uri, resolve_beside
from cockpit.presets.preset import JobSpec, Preset, SlurmStart
from cockpit.presets.ray_flags import FlagValue
from cockpit.secrets import HIDDEN, find_secrets, hide, redact_variable

NAME: Final = r"\$\$(?=\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}"
"""`$${`, which becomes `${` for the shell on the cluster; or the name of a variable that is replaced."""
_ANY_VALUE: Final = "any"
"""A value that is no secret by its shape."""


class FilledPreset(Value, frozen=True):
    """A preset with every `${NAME}` replaced. It is sent to Ray and never shown; show `redact_preset(preset)`."""

    preset: Preset
    hidden: frozenset[str]
    """The secret values; some may be so short that they occur in other words."""

    def __repr__(self) -> str:
        return f"FilledPreset({self.preset.name!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("preset", self.preset.name)]


def fill_preset(preset: Preset, env: Mapping[str, str]) -> FilledPreset:
    """Replace every `${NAME}`. Raises `InputError` if a variable is not set."""
    filler = _Filler(preset, env)
    ray = preset.ray and replace(preset.ray, env=filler.variables("ray.env", preset.ray.env))
    filled = replace(preset, ray=ray, job=preset.job and filler.job(preset.job))
    filler.refuse_missing()
    return FilledPreset(filled, frozenset(filter(None, filler.hidden)))


def redact_preset(preset: Preset) -> Preset:
    """Return the preset to be shown, logged and recorded: `${NAME}` stays, and secrets in plain text are hidden."""
    job = preset.job and preset.job.with_texts(_redact_text, _redact_value, _redact_nested)
    ray = preset.ray
    if ray is not None:
        ray = replace(ray, env={name: _redact_value(name, value) for name, value in ray.env.items()})
    if isinstance(ray, SlurmStart):
        ray = replace(ray, head=_redact_flags(ray.head), workers=_redact_flags(ray.workers))
    elif ray is not None:
        head, *workers = (replace(node, flags=_redact_flags(node.flags)) for node in ray.nodes)
        ray = replace(ray, head=head, workers=tuple(workers))
    return replace(preset, ray=ray, job=job)


def doubts(preset: Preset) -> tuple[str, ...]:
    """Return sentences about secrets that the preset does not protect; they don't contain the secrets."""
    ray, job = preset.ray, preset.job

    # The places of secrets in plain text, also in a preset whose secrets are already hidden.
    plain = []
    for where, env in (
        ("ray.env", ray.env if ray else {}),
        ("job.env", job.env if job else {}),
        ("job.metadata", job.metadata if job else {}),
    ):
        plain += [f"{where}.{name}" for name, value in env.items() if HIDDEN in _redact_value(name, value)]
    for where, text in (("job.entrypoint", job.entrypoint), ("job.working_dir", job.working_dir or "")) if job else ():
        plain += [where] if HIDDEN in _redact_text(text) else []
    if job and HIDDEN in str(_redact_nested(job.runtime_env)):
        plain.append("job.runtime_env")
    found = [f"{where}: contains a secret in plain text; write ${{NAME}} to take it from your environment" for where in plain]

    shown = dict.fromkeys(name for name in variable_names(job.entrypoint if job else "") if _is_secret(name))
    found += [
        f"job.entrypoint: Ray shows ${{{name}}} to everybody who sees the job; set it in job.env and write ${name} here" for name in shown
    ]
    return tuple(found)


def variable_names(text: str) -> list[str]:
    """Return the variables that a text takes from the environment."""
    return [match[1] for match in re.finditer(NAME, text) if match[1]]


class _Filler:
    """Replaces the variables of one preset, and collects missing variables and secret values."""

    def __init__(self, preset: Preset, env: Mapping[str, str]) -> None:
        self._preset = preset
        self._env = env
        self._missing: list[tuple[str, str]] = []
        self.hidden: set[str] = set()

    def job(self, job: JobSpec) -> JobSpec:
        """Return the job with all its texts filled in."""
        env = self.variables("job.env", job.env)
        folder = job.working_dir and self._text("job.working_dir", job.working_dir)
        if folder and not is_uri(folder):
            try:
                folder = str(resolve_beside(self._preset.path, folder))
            except InputError as error:
                raise mistake(self._preset, "job.working_dir", str(error)) from error
        return replace(
            job,
            entrypoint=self._text("job.entrypoint", job.entrypoint),
            working_dir=folder,
            env=env,
            runtime_env=self._nested("job.runtime_env", job.runtime_env),
            submission_id=job.submission_id and self._public_text("job.submission_id", job.submission_id),
            metadata={name: self._public_text(f"job.metadata.{name}", value) for name, value in job.metadata.items()},
        )

    def variables(self, where: str, env: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of `env` filled in. A value that comes from the environment is always secret here."""
        filled = {}
        for name, value in env.items():
            self.hidden |= {self._env[known] for known in variable_names(value) if known in self._env}
            filled[name] = self._text(f"{where}.{name}", value)
            if redact_variable(name, filled[name]) == HIDDEN:
                self.hidden.add(filled[name])
        return filled

    def refuse_missing(self) -> None:
        """Raise `InputError` if variables are not set: with the place of the first, and the names of all."""
        if self._missing:
            where, name = self._missing[0]
            others = [f"${{{other}}}" for other in dict.fromkeys(other for _, other in self._missing) if other != name]
            also = f", nor {'is' if len(others) == 1 else 'are'} {', '.join(others)}" if others else ""
            on_cluster = f"; for a variable of the shell on the cluster, write $${{{name}}}" if where == "job.entrypoint" else ""
            raise mistake(self._preset, where, f"${{{name}}} is not set in your environment{also}{on_cluster}")

    def _public_text(self, where: str, text: str) -> str:
        """Fill in a text that Ray shows to everybody; it may contain no secret."""
        for name in variable_names(text):
            if _is_secret(name, self._env.get(name) or _ANY_VALUE):
                raise mistake(self._preset, where, f"${{{name}}} is a secret, but Ray shows it to everybody")
        return self._text(where, text)

    def _nested(self, where: str, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(where, value)
        if isinstance(value, Mapping):
            return {key: self._nested(f"{where}.{key}", item) for key, item in value.items()}
        return [self._nested(f"{where}[{index}]", item) for index, item in enumerate(value)] if isinstance(value, list) else value

    def _text(self, where: str, text: str) -> str:
        def fill(match: re.Match[str]) -> str:
            name = match[1]
            if name is None:
                return "$"
            if name not in self._env:
                self._missing.append((where, name))
            elif any("\ud800" <= character <= "\udfff" for character in self._env[name]):
                # Python decodes bytes that are not UTF-8 as lone surrogates, which can't be encoded for Ray.
                raise mistake(self._preset, where, f"${{{name}}} is not UTF-8 in your environment")
            elif _is_secret(name, self._env[name]):
                self.hidden.add(self._env[name])
            return self._env.get(name, "")

        filled = re.sub(NAME, fill, text)
        self.hidden |= {filled[start:end] for start, end in find_secrets(filled)}
        return filled


def _is_secret(name: str, value: str = _ANY_VALUE) -> bool:
    """Return whether a variable is secret by its name, or by the shape of its value."""
    return redact_variable(name, value) != value


def mistake(preset: Preset, where: str, text: str) -> InputError:
    """Return an error with the place in the preset's file, if the file still has it."""
    try:
        return Document.read(preset.path).mistake(where, text)
    except (OSError, InputError):  # gone or changed since it was read
        return InputError(f"{abbreviate_home(preset.path)}: {where}: {text}")


def _redact_flags(flags: Mapping[str, FlagValue]) -> dict[str, FlagValue]:
    """Hide secrets in flags, such as `redis_password`."""
    return {name: redact_variable(name, value) if isinstance(value, str) else value for name, value in flags.items()}


def _redact_nested(value: Any) -> Any:
    if isinstance(value, str):
        return _redact_text(value)
    if isinstance(value, Mapping):
        return {key: _redact_value(str(key), item) if isinstance(item, str) else _redact_nested(item) for key, item in value.items()}
    return [_redact_nested(item) for item in value] if isinstance(value, list) else value


def _redact_value(name: str, value: str) -> str:
    """Hide a secret value. A value of only `${NAME}` contains no secret."""
    if variable_names(value) and not re.sub(NAME, "", value).strip():
        return value
    return redact_variable(name, _redact_text(value))


def _redact_text(text: str) -> str:
    """Hide secrets in plain text; the names of variables stay."""
    return hide(text, [(start, end) for start, end in find_secrets(text) if "$" not in text[start:end]])
