"""Computes the variables that Slurm sets for a script from its `#SBATCH` lines."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

from cockpit.budget.scripts.scope import UNKNOWN

_LONG = {"-N": "--nodes", "-n": "--ntasks", "-c": "--cpus-per-task", "-G": "--gpus"}
_SETS = {
    "--nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "--ntasks": ("SLURM_NTASKS", "SLURM_NPROCS"),
    "--ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "--cpus-per-task": ("SLURM_CPUS_PER_TASK",),
    "--gpus": ("SLURM_GPUS",),
}


def slurm_variables(script: str, flags_given: Sequence[str] = ()) -> dict[str, str]:
    """The variables by name; `UNKNOWN` if the value of the flag is no plain number. `flags_given`: the flags of the `sbatch` command."""
    flags = {**_flags(script), **_pairs(flags_given)}
    found = {name: _number(flags[flag]) for flag, names in _SETS.items() if flag in flags for name in names}
    if "--gpus-per-node" in flags:
        found["SLURM_GPUS_PER_NODE"] = flags["--gpus-per-node"]
    each = flags.get("--gpus-per-node") or next((item[4:] for item in flags.get("--gres", "").split(",") if item.startswith("gpu")), None)
    return found | ({"SLURM_GPUS_ON_NODE": _number(each.rpartition(":")[2])} if each else {})


def _number(said: str) -> str:
    return said if re.fullmatch(r"[1-9]\d{0,6}", said) else UNKNOWN


def _flags(script: str) -> Mapping[str, str]:
    """The flags `--name=value`, `--name value`, `-N 2` and `-N2` of all `#SBATCH` lines before the first command."""
    found: dict[str, str] = {}
    for line in script.splitlines():
        if line.startswith("#SBATCH"):
            words = line[len("#SBATCH") :].partition(" #")[0].split()
            found |= _pairs(words)
        elif line.strip() and not line.startswith("#"):
            break
    return found


def _pairs(words: Sequence[str]) -> dict[str, str]:
    return dict(_flag(word, after) for word, after in itertools.pairwise([*words, ""]) if word.startswith("-"))


def _flag(word: str, after: str) -> tuple[str, str]:
    name, sign, value = word.partition("=")
    if not word.startswith("--"):
        name, value = word[:2], word[2:]
    return _LONG.get(name, name), value if sign or value else after
