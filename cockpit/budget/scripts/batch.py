"""Computes the variables that Slurm sets for a script from its `#SBATCH` lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from cockpit.budget.scripts.scope import UNKNOWN, Value

_FLAG = re.compile(r"(?<!\S)(--[\w-]+|-\w)[= ]*([^\s-]\S*)?")
_LONG = {"-N": "--nodes", "-n": "--ntasks", "-c": "--cpus-per-task", "-G": "--gpus"}
_VARIABLES = {
    "SLURM_NNODES": "--nodes",
    "SLURM_JOB_NUM_NODES": "--nodes",
    "SLURM_NTASKS": "--ntasks",
    "SLURM_NPROCS": "--ntasks",
    "SLURM_NTASKS_PER_NODE": "--ntasks-per-node",
    "SLURM_CPUS_PER_TASK": "--cpus-per-task",
    "SLURM_GPUS": "--gpus",
}


def slurm_variables(script: str, flags_given: Sequence[str] = ()) -> dict[str, Value]:
    """The variables by name; `UNKNOWN` if the value of the flag is no plain number. `flags_given`: the flags of the `sbatch` command."""
    head = takewhile(lambda line: line.startswith("#") or not line.strip(), script.splitlines())
    lines = [line.removeprefix("#SBATCH").partition(" #")[0] for line in head if line.startswith("#SBATCH")]
    said = [*lines, " ".join(word for word in flags_given if " " not in word)]
    flags = {_LONG.get(name, name): value for line in said for name, value in _FLAG.findall(line)}
    found = {name: _number(flags[flag]) for name, flag in _VARIABLES.items() if flag in flags}
    of_node = flags.get("--gpus-per-node")
    if of_node:
        found["SLURM_GPUS_PER_NODE"] = of_node
    each = of_node or next((item for item in flags.get("--gres", "").split(",") if item.startswith("gpu")), None)
    if each:
        found["SLURM_GPUS_ON_NODE"] = _number(each.rpartition(":")[2])
    return {name: (value,) for name, value in found.items()}


def _number(said: str) -> str:
    return said if re.fullmatch(r"[1-9]\d{0,6}", said) else UNKNOWN
