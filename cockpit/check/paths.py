"""Whether a job would write its checkpoints into the copy of its working_dir that Ray makes, and takes away with its temp dir."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from cockpit.budget import Budget, Line
from cockpit.presets import Preset

WRITTEN = ("save_path", "ckpt_path", "default_local_dir")
"""How OpenRLHF and veRL call where checkpoints go."""


def path_lines(preset: Preset, budget: Budget) -> Iterator[Line]:
    """Of what the command says itself: a framework's own default is not told."""
    if preset.job is None or not preset.job.working_dir:
        return
    for key, path in budget.settings.items():
        if key.endswith(WRITTEN) and not posixpath.isabs(path) and not path.startswith("~") and "://" not in path:
            text = f"{key} is {path}, below the copy of working_dir in Ray's temp dir: checkpoints go to the node's own disk there"
            yield Line("doubt", text, f"{key}: an absolute path on a disk that all nodes share")
