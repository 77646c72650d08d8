"""What to change so that a job's groups fit: fewer GPUs, or more CPUs. Each number is tried on the nodes before it is told."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from cockpit.budget import Budget
from cockpit.check.nodes import Site
from cockpit.check.queue import Queue, take_place
from cockpit.check.runs import GroupRun
from cockpit.placement import SCALE, Ask, FreeCapacity, Place, Shape, amount
from cockpit.text import gpus_words

MAX_GROUPS_TRIED, MAX_PLACES_TRIED = 500, 20_000
"""Groups, and groups times nodes, up to which smaller jobs are tried: some ten tries place every group on the nodes."""
_ENGINES = "vLLM"
_HYDRA = "trainer.n_gpus_per_node and trainer.nnodes"


class Changes(msgspec.Struct, frozen=True):
    """A job on these nodes, behind what waits ahead of it."""

    runs: Sequence[GroupRun]
    places: Sequence[Place]
    queue: Queue
    site: Site
    budget: Budget

    def words(self, lacking: Sequence[str], *, lacks_cpus: bool = False) -> str | None:
        """What to change where these resources are too few; `None`: nothing that is known here helps.

        `lacks_cpus`: the CPUs have a line of their own. Where CPUs are too few as well, the number of GPUs is one that fits with more CPUs.
        """
        with_cpus = replace(self, places=self._with_cpus(self._most_cpus))
        if lacks_cpus:
            return with_cpus._fewer_gpus() if "GPU" in lacking else self._more_cpus() if "CPU" in lacking else None
        ways = [self._fewer_gpus()] if "GPU" in lacking else []
        ways += (
            [self._more_cpus()]
            if "CPU" in lacking and (len(lacking) == 1 or (self._can_be_tried and self._fits(self.runs, with_cpus.places)))
            else []
        )
        if not any(ways) and {"GPU", "CPU"} <= set(lacking) and (fewer := with_cpus._fewer_gpus()):
            return f"{fewer}; and {self._more_cpus()}"
        return ", or ".join(filter(None, ways)) or None

    def _fits(self, runs: Sequence[GroupRun], places: Sequence[Place]) -> bool:
        ground = FreeCapacity(places, [*(run.sure for run in runs), *(ahead.ask for ahead in self.queue.first)])
        take_place(ground, self.queue)
        return all(ground.take(run.sure) is not None for run in runs for _ in range(run.number) if run.sure.names)

    @property
    def _can_be_tried(self) -> bool:
        groups = sum(run.number for run in self.runs)
        return groups <= MAX_GROUPS_TRIED and groups * len(self.places) <= MAX_PLACES_TRIED

    @property
    def _most_cpus(self) -> int:
        """With so many on each node no CPU is lacking."""
        need = sum(run.number * run.sure.sum("CPU") for run in self.runs)
        return -(-(need + max((place.used.get("CPU", 0) for place in self.places), default=0)) // SCALE)

    def _with_cpus(self, cpus: int) -> Sequence[Place]:
        """The nodes, each with at least so many CPUs."""
        return [replace(place, total={**place.total, "CPU": max(place.total.get("CPU", 0), cpus * SCALE)}) for place in self.places]

    def _more_cpus(self) -> str:
        cpus, many = self._most_cpus, len(self.places) > 1
        if self._can_be_tried and self._fits(self.runs, self._with_cpus(cpus)):
            cpus = bisect_left(range(cpus), True, key=lambda fewer: self._fits(self.runs, self._with_cpus(fewer)))
        if self.site.planned and self.site.allocation is None:
            where = f"set num_cpus: {cpus} under ray.head{' and ray.workers' if many else ''} in the preset"
        else:
            where = f"start Ray{' on each node' if many else ''} with `--num-cpus={cpus}`"
        return f"{where}, or more; Ray only counts CPUs: more than exist are allowed"

    def _fewer_gpus(self) -> str | None:
        """First what one group alone can do, the largest first; else all of them."""
        asking = sorted((run for run in self.runs if run.sure.sum("GPU")), key=lambda run: -run.number * run.sure.sum("GPU"))
        known = [run for run in asking if self._flags(run)]
        if not known:
            return None
        if not self._can_be_tried:
            return f"ask for fewer GPUs: {self._flags(known[0])}"
        ways = [way for run in known for way in self._ways(run, is_alone=len(asking) == 1)]
        if sharing := self._sharing(asking):
            ways.append(sharing)
        if ways:
            return ", or ".join(ways[:2])
        least = [_fewest(run) for run in self.runs]
        if not self._fits(least, self.places):
            return None
        parts = [f"{run.group.name} ({amount('GPU', run.number * run.sure.sum('GPU'))}: {self._flags(run)})" for run in known]
        return f"ask for fewer GPUs in several groups: {', '.join(parts)}"

    def _ways(self, run: GroupRun, *, is_alone: bool) -> Iterator[str]:
        """By how much this run alone must shrink: in each of its groups, or in their number."""
        if fewer := self._largest(run, run.sure.size, lambda size: _with_bundles(run, size)):
            yield self._told(run, _with_bundles(run, fewer), is_alone=is_alone, per_group=True)
        whole = run.sure.sum("GPU") // SCALE if run.sure.size == 1 else 0
        if fewer := self._largest(run, whole, lambda gpus: _with_gpus(run, gpus)):
            yield self._told(run, _with_gpus(run, fewer), is_alone=is_alone, per_group=True)
        if fewer := self._largest(run, run.number, lambda number: replace(run, number=number)):
            yield self._told(run, replace(run, number=fewer), is_alone=is_alone, per_group=False)

    def _largest(self, run: GroupRun, now: int, smaller: Callable[[int], GroupRun]) -> int:
        """The largest number below `now` with which everything fits; 0 where there is none."""

        def is_too_large(number: int) -> bool:
            return not self._fits([smaller(number) if each is run else each for each in self.runs], self.places)

        return bisect_left(range(1, now), True, key=is_too_large)

    def _told(self, run: GroupRun, less: GroupRun, *, is_alone: bool, per_group: bool) -> str:
        gpus, before = (amount("GPU", each.number * each.sure.sum("GPU"), bare=True) for each in (less, run))
        if self._is_hydra and is_alone:
            key, value = ("n_gpus_per_node", less.sure.sum("GPU") // SCALE) if per_group else ("nnodes", less.number)
            return f"set trainer.{key}={value}"
        return f"ask for at most {gpus_words(float(gpus))} instead of {before} for {run.group.name}: {self._flags(run)}"

    def _sharing(self, asking: Sequence[GroupRun]) -> str | None:
        """OpenRLHF's models can share GPUs if each has the same number of them."""
        sizes = {run.number * run.sure.sum("GPU") for run in asking}
        dotted = _is_dotted(self.budget)
        is_shared = any(key.endswith(("colocate_all_models", "colocate_all")) for key in _switched_on(self.budget.settings))
        names = [run.group.name for run in asking]
        if self.budget.framework != "OpenRLHF" or dotted is None or len(sizes) != 1 or len(asking) < 2 or is_shared or "actor" not in names:
            return None
        if not self._fits([asking[names.index("actor")]], self.places):
            return None
        flag = "--train.colocate_all" if dotted else "--colocate_all_models"
        return f"let all models share the same {gpus_words(sizes.pop() / SCALE)}: {flag}"

    @property
    def _is_hydra(self) -> bool:
        return self.budget.framework in ("veRL", "EasyR1") or (
            self.budget.framework == "simpleRL-reason" and _is_dotted(self.budget) is None
        )

    def _flags(self, run: GroupRun) -> str | None:
        """By the names that this command's dialect has for them; `None` where they are not known."""
        dotted = _is_dotted(self.budget)
        if self.budget.framework in ("OpenRLHF", "simpleRL-reason") and dotted is not None:
            return " and ".join(_flags_of_model(name, dotted=dotted) for name in dict.fromkeys(run.group.name.split(" + ")))
        if self._is_hydra:
            is_trainers = (
                any(word in run.group.name for word in ("actor", "pool")) or sum(bool(each.sure.sum("GPU")) for each in self.runs) == 1
            )
            return _HYDRA if is_trainers else "nnodes and n_gpus_per_node of its pool"
        if self.budget.framework == "Ray":
            return "entrypoint_num_gpus" if run.group.name == "entrypoint" else "in the job itself, and under needs in the preset"
        return None


def _is_dotted(budget: Budget) -> bool | None:
    """Whether OpenRLHF's flags have dots, as from 0.10.2 on; `None`: there are none of its flags."""
    flags = [key for key in budget.settings if key.startswith("--")]
    return any("." in key for key in flags) if flags else None


def _switched_on(settings: Mapping[str, str]) -> Iterator[str]:
    return (key for key, value in settings.items() if value.lower() not in ("false", "none", "0", ""))


def _flags_of_model(name: str, *, dotted: bool) -> str:
    """The two flags whose product is the number of its GPUs."""
    first, second = ("num_engines", "tensor_parallel_size") if name == _ENGINES else ("num_nodes", "num_gpus_per_node")
    separator = "." if dotted else "_"
    return f"--{name.lower()}{separator}{first} x --{name.lower()}{separator}{second}"


def _with_bundles(run: GroupRun, size: int) -> GroupRun:
    """With so many bundles in each of its groups; unchanged where these are of several shapes."""
    [*others, (each, _)] = run.ask.shapes
    return run if others else replace(run, ask=Ask(((each, size),), run.ask.strategy))


def _with_gpus(run: GroupRun, gpus: int) -> GroupRun:
    """With so many GPUs in its only bundle."""
    [(each, number)] = run.ask.shapes
    less = Shape(tuple((name, gpus * SCALE if name == "GPU" else has) for name, has in each.amounts), each.labels)
    return replace(run, ask=Ask(((less, number),), run.ask.strategy))


def _fewest(run: GroupRun) -> GroupRun:
    return replace(_with_bundles(run, 1), number=1) if run.sure.sum("GPU") else run
