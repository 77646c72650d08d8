"""What Slurm's `sbatch` tells a script: its own flags, the script's `#SBATCH` lines, and the variables that it sets from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cockpit.budget.shell.sums import UNKNOWN

_LONG = {"N": "nodes", "n": "ntasks", "c": "cpus-per-task", "G": "gpus"}
_VALUED = "AabcCdDeEFGhiJkLmMnNopqtwx"
"""Letters of flags that have a value."""
_ALONE = {
    "hold", "parsable", "wait", "requeue", "no-requeue", "overcommit", "oversubscribe", "contiguous", "spread-job", "test-only",
    "exclusive", "quiet", "verbose", "ignore-pbs", "reboot", "use-min-nodes", "get-user-env",
}  # fmt: skip
_SETS = {
    "nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "ntasks": ("SLURM_NTASKS", "SLURM_NPROCS"),
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "cpus-per-task": ("SLURM_CPUS_PER_TASK",),
    "gpus": ("SLURM_GPUS",),
    "gpus-per-node": ("SLURM_GPUS_PER_NODE",),
}


class BatchJob(NamedTuple):
    """A call of `sbatch`."""

    flags: Mapping[str, str]
    words: Sequence[str]
    """The script and its arguments."""
    wrapped: str | None
    exports: Mapping[str, str]


def submitted(words: Sequence[str]) -> BatchJob:
    """Reads the words behind `sbatch`."""
    flags, rest = _flags(words)
    exports = dict(each.split("=", 1) for each in flags.get("export", "").split(",") if "=" in each)
    return BatchJob(flags, rest, flags.get("wrap"), exports)


def given_by(script: str, flags: Mapping[str, str]) -> dict[str, str]:
    """What Slurm sets for a script; flags come before the lines of the script."""
    said = {**_lines(script), **flags}
    found = {name: _number(said[flag]) for flag, names in _SETS.items() if flag in said for name in names}
    if "gpus-per-node" in said:
        found["SLURM_GPUS_PER_NODE"] = said["gpus-per-node"]
    each = said.get("gpus-per-node") or next((item[4:] for item in said.get("gres", "").split(",") if item.startswith("gpu")), None)
    return found | ({"SLURM_GPUS_ON_NODE": _number(each.rpartition(":")[2])} if each else {})


def _number(said: str) -> str:
    return said if re.fullmatch(r"[1-9]\d{0,6}", said) else UNKNOWN


def _lines(script: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in script.splitlines():
        if line.startswith("#SBATCH"):
            flags, _ = _flags(line[len("#SBATCH") :].partition(" #")[0].split())
            found |= flags
        elif line.strip() and not line.startswith("#"):
            break
    return found


def _flags(words: Sequence[str]) -> tuple[dict[str, str], Sequence[str]]:
    found: dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, sign, value = words[at].lstrip("-").partition("=")
        if not words[at].startswith("--"):
            name, value = words[at][1:2], words[at][2:]
            sign = value or ("" if name in _VALUED else "alone")
        if not sign and name not in _ALONE and at + 1 < len(words):
            at += 1
            value = words[at]
        found[_LONG.get(name, name)] = value
        at += 1
    return found, words[at:]
