"""Reads what a preset's command asks for, looks at the cluster, and checks the one against the other."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from cockpit.budget import Budget, Line, budget_of
from cockpit.budget.ray_submit import listed_packages
from cockpit.check.check import check, own_needs
from cockpit.check.installed import find_frameworks
from cockpit.check.ports import Taken, find_listeners
from cockpit.check.result import CheckOutcome
from cockpit.config.document import InputError, read
from cockpit.config.reach import HostEntry
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.presets import JobSpec, Preset, with_hosts
from cockpit.presets.folder import is_uri, resolve_beside
from cockpit.presets.variables import NAME, variable_names
from cockpit.secrets import HIDDEN, redact_variable
from cockpit.sources.source import run_in_thread
from cockpit.text import clean, plural

MAX_SCRIPT_BYTES = 1 << 20
"""Bytes of a script; what is larger is none."""
HOSTS_PATIENCE_S = 20.0
"""For which a check waits for hosts that have not answered yet."""
_LONG = "x" * 40


async def look_and_check(monitor: ClusterMonitor, preset: Preset, env: Mapping[str, str] = os.environ) -> CheckOutcome:
    """As of now: whoever watches already waits for nobody who has answered."""
    preset = with_hosts(preset, monitor.config)
    await monitor.wait_until_complete(HOSTS_PATIENCE_S)
    budget = await run_in_thread(partial(budget_for, preset, env, find_frameworks(monitor.poller.snapshot)), preset.path)
    taken: Taken = frozenset() if monitor.poller.snapshot.cluster.reachable else await find_listeners(preset)  # that Ray has its own
    return check(preset, budget, monitor.poller.snapshot, monitor.config.limits, taken)


def hosts_of(preset: Preset) -> tuple[HostEntry, ...]:
    """The hosts on which the preset starts Ray: they matter also where nobody else has named them."""
    return tuple(HostEntry(node.host, address=node.address or "") for node in preset.nodes)


def budget_for(preset: Preset, env: Mapping[str, str], there: Mapping[str, str] = {}) -> Budget:
    """What the preset's command asks for; a line says which files were read for it.

    `env` is that of the launch; `there` are the releases of frameworks that lie beside Ray.
    """
    if preset.job is None:
        return Budget(None, groups=())
    files = Files(_folder(preset, _fill(preset.job.working_dir or "", env)))
    entrypoint, known = fill_entrypoint(preset.job, env)
    packages = listed_packages(preset.job.runtime_env)
    budget = budget_of(entrypoint, env=known, read=files.read, job=own_needs(preset.job), packages=packages, installed=there)
    if not files.found:
        return budget
    told = ", ".join(f"{clean(name)} ({plural(length, 'line')})" for name, length in files.found.items())
    return replace(budget, lines=(Line("fine", f"files read on this host: {told}"), *budget.lines))


def fill_entrypoint(job: JobSpec, env: Mapping[str, str]) -> tuple[str, dict[str, str | None]]:
    """The command with each `${NAME}` that is set, and the variables it may use: `None` where nobody knows the value yet.

    A secret is filled in as dots: it is never a count, and what quotes the command may be shown.
    """
    seen = {name: _look_up(name, env) for text in (job.entrypoint, *job.env.values()) for name in variable_names(text)}
    known: dict[str, str | None] = {name: None for name in variable_names(job.entrypoint) if seen[name] is None}
    known.update((name, _value(name, text, seen)) for name, text in job.env.items())
    return _fill(job.entrypoint, seen), known


def _look_up(name: str, env: Mapping[str, str]) -> str | None:
    return HIDDEN if redact_variable(name, _LONG) != _LONG else env.get(name)


def _value(name: str, text: str, seen: Mapping[str, str | None]) -> str | None:
    return None if any(seen[each] is None for each in variable_names(text)) else redact_variable(name, _fill(text, seen))


def _fill(text: str, seen: Mapping[str, str | None]) -> str:
    """What is not set stays as it stands: for a shell that is a variable too."""
    return re.sub(NAME, lambda match: "$" if match[1] is None else match[0] if (value := seen.get(match[1])) is None else value, text)


def _folder(preset: Preset, written: str) -> Path | None:
    """Where the job's folder lies here, if it does; a launch says what is wrong with it."""
    if written and not is_uri(written):
        with suppress(InputError):
            return resolve_beside(preset.path, written)
    return None


class Files:
    """Scripts that a command names, read where they are before they are packed: in its working_dir, which is all that travels."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.found: dict[str, int] = {}
        """Lines of each that was read."""

    def read(self, name: str) -> str | None:
        """`None`: there is none, or it is no script, or the job would find another one over there."""
        path = self._path(name)
        try:
            data = b"" if path is None else read(path, MAX_SCRIPT_BYTES + 1)
        except OSError:
            return None
        if path is None or len(data) > MAX_SCRIPT_BYTES or b"\0" in data:
            return None
        text = data.decode("utf-8", "replace")
        self.found[name] = len(text.splitlines())
        return text

    def _path(self, name: str) -> Path | None:
        """An absolute path may be on a disk that all hosts share; what climbs out of the working_dir is not packed."""
        if os.path.isabs(name):
            return Path(name) if os.path.isfile(name) else None
        below = os.path.normpath(name)
        if self._folder is None or below.startswith(".."):
            return None
        path = self._folder / below
        return path if os.path.isfile(path) else None
