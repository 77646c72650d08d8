"""Computes what an entrypoint or a script will ask Ray for: for its training command, and for the job around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from cockpit.budget.config_files import Read
from cockpit.budget.demand import Budget, Group, entrypoint_groups
from cockpit.budget.explain import Texts, explain
from cockpit.budget.scripts import UNKNOWN
from cockpit.budget.search import Place, Search, find_pins

_ASSUMED = 8
"""At most so many unset variables are tried one by one, to find out whether the budget depends on them."""


def budget_of(
    entrypoint: str,
    *,
    env: Mapping[str, str | None] = {},
    read: Read = lambda _: None,
    find: Read = lambda _: None,
    job: Mapping[str, float] | None = None,
    packages: Sequence[str] = (),
    installed: Mapping[str, str] = {},
    shell: Mapping[str, str] = {},
) -> Budget:
    """Return what a job's entrypoint, or the text of a script, will ask for.

    `env`: the variables that it is started with; the value `None` is unknown. `read`: returns the text of a file that the script
    names, or `None` if there is no such file. `find`: returns the path of the nearest file whose path ends with the given one.
    `job`: by resource, what the job asks for its entrypoint. `packages`: the requirements that its runtime_env installs. `installed`:
    by package, the release that is installed beside Ray; a job may bring another one. `shell`: the variables that the calling shell
    exports; the command would inherit them.
    """
    text = entrypoint.replace(UNKNOWN, "")
    pins, own = find_pins(packages), entrypoint_groups(job or {})
    texts = Texts(text, read)

    def budget_with(unknown: Mapping[str, None]) -> tuple[Budget, tuple[str, ...]]:
        search = Search(pins, installed)
        search.script(text, {**env, **unknown}, Place(texts.read, texts.read, find), shell={} if unknown else shell)
        return _budget(search, own), tuple(search.assumed)

    budget, assumed = budget_with({})
    decisive = [name for name in assumed[:_ASSUMED] if budget_with({name: None})[0].groups != budget.groups]
    doubts = [
        f"{name}={shell[name]} of this shell is used"
        if name in shell
        else f"{name} is treated as unset: nothing in the preset or script sets it"
        for name in decisive
    ]
    unread = tuple(explain(sentence, texts) for sentence in budget.unread)
    if budget.gpus is None and not unread:
        unread = ("what the job asks for its entrypoint is known only at run time",)
    return replace(budget, unread=unread, doubts=(*budget.doubts, *(doubts if budget.groups is not None else ())))


def _budget(search: Search, own: tuple[Group, ...]) -> Budget:
    if not search.found:
        return _budget_without_training(search, own)
    by_gpus = sorted(search.found, key=lambda found: -(found.budget.gpus or 0))
    unknown = next((found for found in search.found if found.budget.gpus is None), None)
    chosen = unknown or by_gpus[0]
    doubts = [*chosen.budget.doubts, *search.unread]
    if any(found.budget.groups != chosen.budget.groups for found in search.found):
        told = ["unknown" if gpus is None else f"{gpus:g} GPUs" for gpus in (found.budget.gpus for found in by_gpus)]
        amounts = ", ".join(dict.fromkeys(told))
        doubts.append(f"{len(search.found)} training commands ask for different amounts ({amounts}): the largest is counted")
    if all(found.maybe for found in search.found):
        doubts.append("the training command runs only under a condition that cockpit can't evaluate")
    groups = None if chosen.budget.groups is None else (*own, *chosen.around, *chosen.budget.groups)
    lines = (*chosen.budget.lines, *search.lines, *search.stop_lines())
    return replace(chosen.budget, groups=groups, lines=lines, doubts=tuple(dict.fromkeys(doubts)))


def _budget_without_training(search: Search, own: tuple[Group, ...]) -> Budget:
    """The budget without a known training command: only what the job itself asks for."""
    groups = own or (search.jobs[0] if len(search.jobs) == 1 else ())
    if groups:
        return Budget("Ray", groups=groups, lines=search.stop_lines(), doubts=tuple(search.unread))
    names = ", ".join(list(search.programs)[-3:])
    nothing = f"no training command that cockpit knows was found{f' (it runs {names})' if names else ''}"
    unread = (nothing, *search.unread) if search.programs or not search.unread else tuple(search.unread)
    unread = tuple(sorted(unread, key=lambda sentence: "is not shell code" not in sentence))
    return Budget(None, unread=unread, lines=search.stop_lines())
