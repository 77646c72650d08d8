"""Reads the needs of a preset's command, and checks them against the cluster."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
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
from cockpit.secrets import HIDDEN, LineRedactor, redact, redact_variable
from cockpit.sources.source import run_in_thread
from cockpit.text import clean, join_first, plural

MAX_FILES_NAMED = 4
MAX_FOLDERS, MAX_FOLDER_DEPTH = 2000, 3
"""Subfolders that are searched for a framework's own sources."""
MAX_SCRIPT_BYTES = 1 << 20
"""A larger file is not read: it is no script."""
HOSTS_PATIENCE_S = 20.0
"""A check waits so long for hosts that have not answered yet."""
_LONG_VALUE = "x" * 40
"""Longer than any value that the rules of secrets leave alone for its length."""


async def sample_and_check(
    monitor: ClusterMonitor, preset: Preset, env: Mapping[str, str] = os.environ, shell: Mapping[str, str] = {}
) -> CheckOutcome:
    """Check the preset against the cluster as it is now. Waits only for hosts that have not answered yet."""
    preset = with_hosts(preset, monitor.config)
    await monitor.wait_until_complete(HOSTS_PATIENCE_S)
    budget = await run_in_thread(partial(budget_for, preset, env, find_frameworks(monitor.poller.snapshot), shell), preset.path)
    # A running Ray uses its own ports, so they say nothing.
    taken: Taken = frozenset() if monitor.poller.snapshot.cluster.reachable else await find_listeners(preset)
    return check(preset, budget, monitor.poller.snapshot, monitor.config.limits, taken)


def hosts_of(preset: Preset) -> tuple[HostEntry, ...]:
    """Return the hosts on which the preset starts Ray. They are probed even if the config does not name them."""
    return tuple(HostEntry(node.host, address=node.address or "") for node in preset.nodes)


def budget_for(preset: Preset, env: Mapping[str, str], installed: Mapping[str, str] = {}, shell: Mapping[str, str] = {}) -> Budget:
    """Return the needs of the preset's command; a line names the files that were read for it.

    `env` is the environment of the launch; `installed` has the releases of frameworks that are installed beside Ray.
    `shell` has the variables that the command would inherit if it was typed here.
    """
    if preset.job is None:
        return Budget(None, groups=())
    # The job's folder on this host. If its path is wrong, the launch says so.
    folder = None
    written = _fill(preset.job.working_dir or "", env)
    if written and not is_uri(written):
        with suppress(InputError):
            folder = resolve_beside(preset.path, written)

    files = Files(folder)
    entrypoint, known = fill_entrypoint(preset.job, env)
    packages = listed_packages(preset.job.runtime_env)
    budget = budget_of(
        entrypoint,
        env=known,
        read=files.read,
        find=files.find,
        job=own_needs(preset.job),
        packages=packages,
        installed=installed,
        shell={name: redact_variable(name, value) for name, value in shell.items()},
    )
    # These texts quote words of the command and of its files.
    budget = replace(
        budget,
        unread=tuple(map(redact, budget.unread)),
        doubts=tuple(map(redact, budget.doubts)),
        settings={name: redact(value) for name, value in budget.settings.items()},
    )
    if not files.found:
        return budget
    names = join_first([f"{clean(name)} ({plural(length, 'line')})" for name, length in files.found.items()], MAX_FILES_NAMED)
    return replace(budget, lines=(Line("fine", f"files read on this host: {names}"), *budget.lines))


def fill_entrypoint(job: JobSpec, env: Mapping[str, str]) -> tuple[str, dict[str, str | None]]:
    """Return the command with every known `${NAME}` replaced, and the values of its variables (`None`: not known yet).

    A secret is replaced by dots: it is never a count, and lines that quote the command may be shown.
    """
    values: dict[str, str | None] = {}
    for text in (job.entrypoint, *job.env.values()):
        for name in variable_names(text):
            is_secret = redact_variable(name, _LONG_VALUE) != _LONG_VALUE
            values[name] = HIDDEN if is_secret else env.get(name)

    known: dict[str, str | None] = {name: None for name in variable_names(job.entrypoint) if values[name] is None}
    for name, text in job.env.items():
        is_known = all(values[each] is not None for each in variable_names(text))
        known[name] = redact_variable(name, _fill(text, values)) if is_known else None
    return _fill(job.entrypoint, values), known


def _fill(text: str, values: Mapping[str, str | None]) -> str:
    """Replace every `${NAME}` with a known value. The others stay: for a shell they are variables too."""
    return re.sub(NAME, lambda match: "$" if match[1] is None else match[0] if (value := values.get(match[1])) is None else value, text)


class Files:
    """Reads the scripts that a command names, in its working_dir on this host, which is what a launch packs."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.found: dict[str, int] = {}
        """The number of lines of each script that was read."""
        self._folders: list[Path] | None = None
        self._texts: dict[str, str | None] = {}
        self._paths: dict[str, str | None] = {}
        """What `read` and `find` have returned: a script with loops names the same files thousands of times."""

    def find(self, name: str) -> str | None:
        """Return the path of the file that ends like this one, in the folder or in the nearest of its subfolders."""
        if self._folder is None or os.path.isabs(name) or name.startswith("..") or "\0" in name:
            return None
        if self._folders is None:
            self._folders = list(_subfolders(self._folder))
        if name not in self._paths:
            found = next((folder for folder in self._folders if (folder / name).is_file()), None)
            self._paths[name] = None if found is None else os.path.relpath(found / name, self._folder)
        return self._paths[name]

    def read(self, name: str) -> str | None:
        """Return the script without secrets, read once. `None` for no script, no text, or a file that the job would not read."""
        if name not in self._texts:
            self._texts[name] = self._read(name)
        return self._texts[name]

    def _read(self, name: str) -> str | None:
        # Secrets are hidden here: an answer may quote a value that the command takes from a script, and then nothing shows that it is one.
        # An absolute path may be on a disk that all hosts share. A path out of the working_dir is not packed.
        if os.path.isabs(name):
            path = Path(name)
        elif self._folder is not None and not os.path.normpath(name).startswith(".."):
            path = self._folder / os.path.normpath(name)
        else:
            return None
        if not os.path.isfile(path) or os.path.realpath(path).startswith(("/proc/", "/sys/")):  # reading there may wait, or have an effect
            return None
        try:
            data = read(path, MAX_SCRIPT_BYTES + 1)
        except OSError:
            return None
        if len(data) > MAX_SCRIPT_BYTES or b"\0" in data:
            return None
        text = data.decode("utf-8", "replace")
        self.found[name] = len(text.splitlines())
        hide = LineRedactor()
        return "\n".join(_as_code(line, hide(line)) for line in text.split("\n"))


def _as_code(line: str, shown: str) -> str:
    """A line of a script without its secrets, as shell code: a value `$(…)` of several words is hidden as a whole."""
    if shown == line or "$(" not in line or not re.match(r"\s*(?:export\s+)?\w+=", line):
        return shown
    return shown.partition(HIDDEN)[0] + HIDDEN


def _subfolders(folder: Path) -> Iterator[Path]:
    """The folder and those below it, the nearest first; hidden ones are left out, and links are not followed."""
    level, number = [folder], 0
    for _ in range(MAX_FOLDER_DEPTH + 1):
        below: list[Path] = []
        for each in level:
            yield each
            number += 1
            if number >= MAX_FOLDERS:
                return
            with suppress(OSError), os.scandir(each) as entries:
                below += [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")]
        level = sorted(below)
