"""Proposes what an operator can do so that a job's groups fit: wait, add nodes, or give Ray more CPUs. Never a change of the training."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from cockpit.check.nodes import Site
from cockpit.check.queue import Queue, place_queue
from cockpit.check.runs import GroupRun
from cockpit.placement import SCALE, FreeCapacity, PlacementNode
from cockpit.text import gpus_words, plural

MAX_GROUPS_TRIED, MAX_GROUPS_TIMES_NODES_TRIED = 500, 20_000
"""Proposals are tried only up to so many groups, and groups times nodes: some ten tries place every group on the nodes."""


class Changes(msgspec.Struct, frozen=True):
    """Finds changes for a job on these nodes, behind the queue."""

    runs: Sequence[GroupRun]
    nodes: Sequence[PlacementNode]
    queue: Queue
    site: Site

    def words(self, lacking: Sequence[str], *, lacks_cpus: bool = False) -> str | None:
        """Return what to do if these resources are too few, or `None` if nothing is known that helps.

        `lacks_cpus`: the CPUs have a line of their own, so a proposal for GPUs has to fit only on nodes with more CPUs.
        """
        with_cpus = replace(self, nodes=self._with_cpus(self._most_cpus))
        ways = []
        if "GPU" in lacking and any(node.used.get("GPU") for node in self.nodes):
            ways.append("wait until enough GPUs are free, or stop what holds them")
        elif "GPU" in lacking and (more := (with_cpus if lacks_cpus else self)._more_nodes()):
            ways.append(more)
        is_enough = len(lacking) == 1 or (self._can_be_tried and self._fits(self.runs, with_cpus.nodes))
        if "CPU" in lacking and is_enough:
            ways.append(self._more_cpus())
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

    def _more_nodes(self) -> str | None:
        """Return how many more nodes like the largest one are enough. If no number is, one node is too small for a part of the job."""
        largest = max(self.nodes, key=lambda node: (node.total.get("GPU", 0), node.total.get("CPU", 0)), default=None)
        gpus = largest.total.get("GPU", 0) if largest else 0
        if largest is None:
            return None
        least = max(_gpus_on_one_node(run) for run in self.runs)
        if least > gpus:
            return f"add nodes with at least {gpus_words(least / SCALE)} each"
        if not self._can_be_tried:
            return f"add nodes with {gpus_words(gpus / SCALE)} each"

        def fits(number: int) -> bool:
            added = [replace(largest, id=f"added {index}", name=f"added {index}") for index in range(number)]
            return self._fits(self.runs, [*self.nodes, *added])

        # Each of these nodes takes at least one bundle. With labels or other resources that no such node has, no number is enough.
        most = min(sum(run.number * run.sure.size for run in self.runs), MAX_GROUPS_TIMES_NODES_TRIED // len(self.nodes))
        if not fits(most):
            return None
        number = bisect_left(range(most), True, key=fits)
        each = f"with {gpus_words(gpus / SCALE)}{' each' if number > 1 else ''}"
        if self.site.allocation is not None:
            return f"ask Slurm for {plural(number, 'more node')} {each}"
        return f"add {plural(number, 'node')} {each}{' under ray.workers in the preset' if self.site.planned else ''}"


def _gpus_on_one_node(run: GroupRun) -> int:
    """The GPUs that the run needs on a single node."""
    if run.sure.strategy == "STRICT_PACK":
        return run.sure.sum("GPU")
    return max((dict(shape.amounts).get("GPU", 0) for shape, _ in run.sure.shapes), default=0)
