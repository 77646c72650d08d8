"""Proposes changes so that a job's groups fit: fewer GPUs, or more CPUs. Each number is tried on the nodes before it is shown."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from cockpit.budget import Budget
from cockpit.check.nodes import Site
from cockpit.check.queue import Queue, place_queue
from cockpit.check.runs import GroupRun
from cockpit.placement import SCALE, FreeCapacity, PlacementNode, Request, Shape, amount
from cockpit.text import gpus_words

MAX_GROUPS_TRIED, MAX_GROUPS_TIMES_NODES_TRIED = 500, 20_000
"""Smaller jobs are tried only up to so many groups, and groups times nodes: some ten tries place every group on the nodes."""
_ENGINES = "vLLM"
_HYDRA = "trainer.n_gpus_per_node and trainer.nnodes"
_KEYS: Mapping[str | None, str] = {
    **dict.fromkeys(("slime", "miles"), "--actor-num-nodes, --actor-num-gpus-per-node and --rollout-num-gpus"),
    "SkyRL": "generator.inference_engine.num_engines and trainer.placement",
    "NeMo-RL": "cluster.num_nodes and cluster.gpus_per_node",
    "ROLL": "device_mapping of its roles",
    "AReaL": "rollout.backend and actor.backend",
    "open-instruct": "--num_learners_per_node and --vllm_num_engines",
}
"""What sets the number of GPUs of frameworks whose groups don't tell it."""


class Changes(msgspec.Struct, frozen=True):
    """Finds changes for a job on these nodes, behind the queue."""

    runs: Sequence[GroupRun]
    nodes: Sequence[PlacementNode]
    queue: Queue
    site: Site
    budget: Budget

    def words(self, lacking: Sequence[str], *, lacks_cpus: bool = False) -> str | None:
        """Return what to change if these resources are too few, or `None` if no change is known that helps.

        `lacks_cpus`: the CPUs have a line of their own, so the proposed number of GPUs only has to fit on nodes with more CPUs.
        """
        with_cpus = replace(self, nodes=self._with_cpus(self._most_cpus))
        if lacks_cpus:
            return with_cpus._fewer_gpus() if "GPU" in lacking else self._more_cpus() if "CPU" in lacking else None
        ways = []
        if "GPU" in lacking and (fewer := self._fewer_gpus()):
            ways.append(fewer)
        if "CPU" in lacking and (len(lacking) == 1 or (self._can_be_tried and self._fits(self.runs, with_cpus.nodes))):
            ways.append(self._more_cpus())
        if not ways and {"GPU", "CPU"} <= set(lacking) and (fewer := with_cpus._fewer_gpus()):
            return f"{fewer}; and {self._more_cpus()}"
        return ", or ".join(ways) or None

    def _fits(self, runs: Sequence[GroupRun], nodes: Sequence[PlacementNode]) -> bool:
        capacity = FreeCapacity(nodes, [*(run.sure for run in runs), *(ahead.request for ahead in self.queue.first)])
        place_queue(capacity, self.queue)
        return all(capacity.take(run.sure) is not None for run in runs for _ in range(run.number) if run.sure.names)

    @property
    def _can_be_tried(self) -> bool:
        groups = sum(run.number for run in self.runs)
        return groups <= MAX_GROUPS_TRIED and groups * len(self.nodes) <= MAX_GROUPS_TIMES_NODES_TRIED

    @property
    def _most_cpus(self) -> int:
        """A number of CPUs for each node that is certainly enough."""
        need = sum(run.number * run.sure.sum("CPU") for run in self.runs)
        return -(-(need + max((node.used.get("CPU", 0) for node in self.nodes), default=0)) // SCALE)

    def _with_cpus(self, cpus: int) -> Sequence[PlacementNode]:
        """Return the nodes, each with at least this number of CPUs."""
        return [replace(node, total={**node.total, "CPU": max(node.total.get("CPU", 0), cpus * SCALE)}) for node in self.nodes]

    def _more_cpus(self) -> str:
        cpus, many = self._most_cpus, len(self.nodes) > 1
        if self._can_be_tried and self._fits(self.runs, self._with_cpus(cpus)):
            cpus = bisect_left(range(cpus), True, key=lambda fewer: self._fits(self.runs, self._with_cpus(fewer)))
        if self.site.planned and self.site.allocation is None:
            where = f"set num_cpus: {cpus} under ray.head{' and ray.workers' if many else ''} in the preset"
        else:
            where = f"start Ray{' on each node' if many else ''} with `--num-cpus={cpus}`"
        return f"{where}, or more; Ray only counts CPUs: more than exist are allowed"

    def _fewer_gpus(self) -> str | None:
        """Return how to ask for fewer GPUs. It is enough if one group shrinks, the largest first; otherwise several have to."""
        asking = sorted((run for run in self.runs if run.sure.sum("GPU")), key=lambda run: -run.number * run.sure.sum("GPU"))
        known = [run for run in asking if self._flags(run)]
        if not known:
            return None
        if not self._can_be_tried:
            return f"ask for fewer GPUs: {self._flags(known[0])}"
        ways = [way for run in known for way in self._smaller_runs(run, is_alone=len(asking) == 1)]
        if sharing := self._sharing(asking):
            ways.append(sharing)
        if ways:
            return ", or ".join(ways[:2])
        fewest = [replace(_with_bundles(run, 1), number=1) if run.sure.sum("GPU") else run for run in self.runs]
        if not self._fits(fewest, self.nodes):
            return None
        parts = [f"{run.group.name} ({amount('GPU', run.number * run.sure.sum('GPU'))}: {self._flags(run)})" for run in known]
        return f"ask for fewer GPUs in several groups: {', '.join(parts)}"

    def _smaller_runs(self, run: GroupRun, *, is_alone: bool) -> Iterator[str]:
        """Ways to shrink this run alone until the job fits: fewer bundles per group, fewer GPUs per bundle, or fewer groups."""
        if fewer := self._largest(run, run.sure.size, lambda size: _with_bundles(run, size)):
            yield self._describe(run, _with_bundles(run, fewer), is_alone=is_alone, per_group=True)
        whole = run.sure.sum("GPU") // SCALE if run.sure.size == 1 else 0
        if fewer := self._largest(run, whole, lambda gpus: _with_gpus(run, gpus)):
            yield self._describe(run, _with_gpus(run, fewer), is_alone=is_alone, per_group=True)
        if fewer := self._largest(run, run.number, lambda number: replace(run, number=number)):
            yield self._describe(run, replace(run, number=fewer), is_alone=is_alone, per_group=False)

    def _largest(self, run: GroupRun, now: int, smaller: Callable[[int], GroupRun]) -> int:
        """Return the largest number below `now` with which everything fits, or 0."""

        def is_too_large(number: int) -> bool:
            return not self._fits([smaller(number) if each is run else each for each in self.runs], self.nodes)

        return bisect_left(range(1, now), True, key=is_too_large)

    def _describe(self, run: GroupRun, less: GroupRun, *, is_alone: bool, per_group: bool) -> str:
        gpus, before = (amount("GPU", each.number * each.sure.sum("GPU"), bare=True) for each in (less, run))
        if self._is_hydra and is_alone:
            key, value = ("n_gpus_per_node", less.sure.sum("GPU") // SCALE) if per_group else ("nnodes", less.number)
            return f"set trainer.{key}={value}"
        return f"ask for at most {gpus_words(float(gpus))} instead of {before} for {run.group.name}: {self._flags(run)}"

    def _sharing(self, asking: Sequence[GroupRun]) -> str | None:
        """Propose that OpenRLHF's models share GPUs, which they can if each has the same number of them."""
        sizes = {run.number * run.sure.sum("GPU") for run in asking}
        dotted = _is_dotted(self.budget)
        switched_on = [key for key, value in self.budget.settings.items() if value.lower() not in ("false", "none", "0", "")]
        is_shared = any(key.endswith(("colocate_all_models", "colocate_all")) for key in switched_on)
        names = [run.group.name for run in asking]
        if self.budget.framework != "OpenRLHF" or dotted is None or len(sizes) != 1 or len(asking) < 2 or is_shared or "actor" not in names:
            return None
        if not self._fits([asking[names.index("actor")]], self.nodes):
            return None
        flag = "--train.colocate_all" if dotted else "--colocate_all_models"
        return f"let all models share the same {gpus_words(sizes.pop() / SCALE)}: {flag}"

    @property
    def _is_hydra(self) -> bool:
        return self.budget.framework in ("veRL", "EasyR1") or (
            self.budget.framework == "simpleRL-reason" and _is_dotted(self.budget) is None
        )

    def _flags(self, run: GroupRun) -> str | None:
        """Return the settings for the run's number of GPUs, in the dialect of this command; `None` if they are unknown."""
        dotted = _is_dotted(self.budget)
        if self.budget.framework in ("OpenRLHF", "simpleRL-reason") and dotted is not None:
            # Each model has two flags; their product is the number of its GPUs.
            flags, separator = [], "." if dotted else "_"
            for name in dict.fromkeys(run.group.name.split(" + ")):
                first, second = ("num_engines", "tensor_parallel_size") if name == _ENGINES else ("num_nodes", "num_gpus_per_node")
                flags.append(f"--{name.lower()}{separator}{first} x --{name.lower()}{separator}{second}")
            return " and ".join(flags)
        if self._is_hydra:
            is_trainers = (
                any(word in run.group.name for word in ("actor", "pool")) or sum(bool(each.sure.sum("GPU")) for each in self.runs) == 1
            )
            return _HYDRA if is_trainers else "nnodes and n_gpus_per_node of its pool"
        if self.budget.framework in _KEYS:
            return _KEYS[self.budget.framework]
        if self.budget.framework == "Ray":
            return "entrypoint_num_gpus" if run.group.name == "entrypoint" else "in the job itself, and under needs in the preset"
        return None


def _is_dotted(budget: Budget) -> bool | None:
    """Return whether the command has OpenRLHF's flags with dots (0.10.2 and later); `None` if it has no OpenRLHF flags."""
    flags = [key for key in budget.settings if key.startswith("--")]
    return any("." in key for key in flags) if flags else None


def _with_bundles(run: GroupRun, size: int) -> GroupRun:
    """Return the run with this number of bundles in each group; unchanged if its bundles differ."""
    [*others, (each, _)] = run.request.shapes
    return run if others else replace(run, request=Request(((each, size),), run.request.strategy))


def _with_gpus(run: GroupRun, gpus: int) -> GroupRun:
    """Return the run with this number of GPUs in its only bundle."""
    [(each, number)] = run.request.shapes
    less = Shape(tuple((name, gpus * SCALE if name == "GPU" else has) for name, has in each.amounts), each.labels)
    return replace(run, request=Request(((less, number),), run.request.strategy))
