"""Warns about jobs that write checkpoints into Ray's copy of their working_dir, which Ray deletes with its temp dir."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from cockpit.budget import Budget, Line
from cockpit.presets import Preset

WRITTEN = ("save_path", "ckpt_path", "default_local_dir")
"""Settings of the frameworks for the folder of checkpoints."""


def path_lines(preset: Preset, budget: Budget) -> Iterator[Line]:
    """One line for each relative path in the command. A framework's own default is not checked."""
    if preset.job is None or not preset.job.working_dir:
        return
    for key, path in budget.settings.items():
        is_placeholder = "path/to" in path or path.lower().startswith(("<", "your"))  # that is said anyway
        if key.endswith(WRITTEN) and not is_placeholder and not posixpath.isabs(path) and not path.startswith("~") and "://" not in path:
            text = f"{key} is {path}, below the copy of working_dir in Ray's temp dir: checkpoints go to the node's own disk there"
            yield Line("doubt", text, f"{key}: an absolute path on a disk that all nodes share")
