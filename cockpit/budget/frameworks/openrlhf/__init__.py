"""What an OpenRLHF command asks for: read by every release's own flags, and counted as the newest that takes them does."""

from __future__ import annotations

import contextlib
import difflib
import itertools
import textwrap
from collections.abc import Mapping, Sequence

from msgspec.structs import replace
from packaging.version import InvalidVersion

from cockpit.budget.demand import Budget, Group, Line
from cockpit.budget.frameworks.openrlhf.args import ParsedArgs, ParserRefusedError, UnreadError, all_flags, number, parse, releases
from cockpit.budget.frameworks.openrlhf.flags import RELEASES
from cockpit.budget.frameworks.openrlhf.groups import Placement
from cockpit.budget.frameworks.openrlhf.rules import contradictions
from cockpit.budget.scripts import UNKNOWN

_FORKED = "0.5.1"
"""Whose flags simpleRL-reason v0 has."""
MAX_REFUSAL_CHARS = 100
"""Characters of a parser's refusal that are told."""
_STOPS = "OpenRLHF exits with an error, and nothing starts"
_SETTINGS = (
    "vllm_gpu_memory_utilization", "vllm_enable_sleep", "deepspeed_enable_sleep", "zero_stage", "adam_offload", "ref_reward_offload",
    "colocate_all_models", "async_train", "vllm_tensor_parallel_size", "vllm_num_engines", "train_batch_size", "micro_train_batch_size",
    "rollout_batch_size", "micro_rollout_batch_size", "n_samples_per_prompt", "pretrain", "actor_num_nodes", "vllm_sync_backend",
    "save_path", "ckpt_path",
)  # fmt: skip


def openrlhf(argv: Sequence[str], *, release: str | None = None, installed: str | None = None) -> Budget:
    """What the words after `train_ppo_ray` ask for; `release`: which it runs with, if anybody says so; `installed`: which is there."""
    release, installed = _if_valid(release), _if_valid(installed)
    told = release or installed
    outcomes = releases(argv, RELEASES if told is None else _nearest(told))
    refusal = next((outcome for outcome in outcomes.values() if isinstance(outcome, ParserRefusedError)), None)
    if refusal is None or installed is None or release:
        return _of(argv, outcomes)
    return _counted_without_unknown(argv, outcomes) or _brings_another(argv, installed, refusal)


def _if_valid(release: str | None) -> str | None:
    with contextlib.suppress(InvalidVersion):
        return release and str(number(release))
    return None


def _brings_another(argv: Sequence[str], installed: str, refusal: ParserRefusedError) -> Budget:
    """The job may have an environment of its own: then its flags tell the release."""
    found = openrlhf(argv)
    why = textwrap.shorten(str(refusal).replace(UNKNOWN, "…"), MAX_REFUSAL_CHARS, placeholder=" …")
    text = f"OpenRLHF {installed} is installed, and refuses these flags ({why}): the job needs another release"
    return replace(
        found, lines=(*found.lines, Line("doubt", text, "use the flags of the installed release, unless the job installs its own"))
    )


def _of(argv: Sequence[str], outcomes: Mapping[str, ParsedArgs | Exception]) -> Budget:
    taken = {known: outcome for known, outcome in outcomes.items() if isinstance(outcome, ParsedArgs)}
    if not taken:
        return _counted_without_unknown(argv, outcomes) or _explain_refusal(argv, outcomes)
    made = {known: Placement(asked) for known, asked in taken.items()}
    lines = {known: list(contradictions(asked)) for known, asked in taken.items()}
    newest = next(iter(taken))
    same = [known for known, placement in made.items() if placement.groups == made[newest].groups]
    others = [known for known in made if known not in same and all(line.level != "never" for line in lines[known])]
    clash = _clash(made, same, others)
    return Budget(
        framework="OpenRLHF",
        dialect=_span(same),
        groups=None if clash else made[newest].groups,
        unread=(*made[newest].unread, *clash),
        lines=(*(_sure(line, same, lines) for line in lines[newest]), *([] if clash else _otherwise(same, others))),
        settings=_settings(taken[newest]),
    )


def simplerl(argv: Sequence[str]) -> Budget:
    """What the words after simpleRL-reason v0's `train_ppo_ray_box` ask for: a reward model only where one is named."""
    try:
        asked = parse(_FORKED, argv)
    except ParserRefusedError as error:
        return _explain_refusal(argv, {_FORKED: error}, "simpleRL-reason")
    except UnreadError as error:
        return Budget("simpleRL-reason", unread=(str(error),))
    asked.fork = True
    made = Placement(asked)
    return Budget("simpleRL-reason", "v0", made.groups, tuple(made.unread), tuple(contradictions(asked)), _settings(asked))


def _sure(line: Line, same: Sequence[str], lines: Mapping[str, Sequence[Line]]) -> Line:
    """What only some of the releases stop at, and nobody knows which it is, is a doubt."""
    stopping = [known for known in same if line in lines[known]]
    if line.level != "never" or stopping == list(same):
        return line
    return Line("doubt", f"{line.text} (OpenRLHF {_span(stopping)})", line.change)


def _nearest(release: str) -> list[str]:
    older = [known for known in RELEASES if number(known) <= number(release)]
    return [older[-1] if older else RELEASES[0]]


def _span(same: Sequence[str]) -> str:
    """Releases in words, oldest first: `0.6.1 to 0.9.1`."""
    at = sorted(RELEASES.index(known) for known in same)
    runs = [[place for _, place in run] for _, run in itertools.groupby(enumerate(at), lambda pair: pair[1] - pair[0])]
    return ", ".join(_format_range(RELEASES[run[0]], RELEASES[run[-1]]) for run in runs)


def _format_range(first: str, last: str) -> str:
    return f"{first} and later" if last == RELEASES[-1] else first if first == last else f"{first} to {last}"


def _clash(made: Mapping[str, Placement], same: Sequence[str], others: Sequence[str]) -> list[str]:
    """Releases that reserve another number of GPUs: then there is no number."""
    ours = _gpus(made[same[0]].groups)
    theirs = [known for known in others if _gpus(made[known].groups) != ours]
    if not theirs:
        return []
    told = " or ".join(sorted({_gpus(made[known].groups) for known in theirs}))
    return [f"OpenRLHF {_span(same)} reserves {ours}, {_span(theirs)} {told}; all these releases accept the flags"]


def _otherwise(same: Sequence[str], others: Sequence[str]) -> list[Line]:
    """Where older releases reserve the same in other groups."""
    if not others:
        return []
    text = f"Counted as OpenRLHF {_span(same)}; {_span(others)} reserves as many GPUs for these flags, in other placement groups"
    return [Line("doubt", text, "name the release in the job's runtime_env (pip openrlhf==…)")]


def _gpus(groups: tuple[Group, ...] | None) -> str:
    amounts = [None] if groups is None else [group.amount("GPU") for group in groups]
    return "GPUs that can't be counted" if None in amounts else f"{sum(amount for amount in amounts if amount is not None):g} GPUs"


def _counted_without_unknown(argv: Sequence[str], outcomes: Mapping[str, ParsedArgs | Exception]) -> Budget | None:
    """The groups of all other flags, each unknown one a doubt; `None` where there is none, or the rest can't be read either."""
    unknown = dict.fromkeys(word.partition("=")[0] for word in argv if _is_strange(word))
    rest: list[str] = []
    skipped: list[str] = []
    into = rest
    for word in argv:
        into = (skipped if word.partition("=")[0] in unknown else rest) if word.startswith("--") else into
        into.append(word)
    # What can't be known there may be any flags.
    again = releases(rest, list(outcomes)) if unknown and not any(UNKNOWN in word for word in skipped) else {}
    if not any(isinstance(outcome, ParsedArgs) for outcome in again.values()):
        return None
    found = _of(rest, again)
    doubts = (Line("doubt", f"{_unknown_flag(word)} {_STOPS}. The groups are counted without it", _correction(word)) for word in unknown)
    # Whoever reads the unknown flag may read what seems to be missing.
    lines = (Line("doubt", line.text, line.change) if line.level == "never" else line for line in found.lines)
    return replace(found, lines=(*lines, *doubts))


def _explain_refusal(argv: Sequence[str], outcomes: Mapping[str, ParsedArgs | Exception], framework: str = "OpenRLHF") -> Budget:
    """No release takes the words: because of what can't be known, of flags that none has, or of a mistake."""
    unknown = next((str(outcome) for outcome in outcomes.values() if not isinstance(outcome, (ParsedArgs, ParserRefusedError))), None)
    if unknown:
        return Budget(framework, unread=(unknown,))
    strange = [word.partition("=")[0] for word in argv if _is_strange(word)]
    if strange:
        return Budget(framework, unread=tuple(_unknown_flag(word) for word in dict.fromkeys(strange)))
    release, reason = min(outcomes.items(), key=lambda pair: _count_unrecognized(str(pair[1])))
    return Budget(
        framework,
        unread=("No release of OpenRLHF takes these flags",),
        lines=(Line("never", f"OpenRLHF {release} refuses its flags: {str(reason).replace(UNKNOWN, '…')}"),),
    )


def _count_unrecognized(reason: str) -> int:
    """How many words a release doesn't know: the one that knows most is meant."""
    return len(reason.split()) if reason.startswith("unrecognized") else 0


def _is_strange(word: str) -> bool:
    name = word.partition("=")[0]
    return name.startswith("--") and len(name) > 2 and " " not in name and not any(flag.startswith(name) for flag in all_flags())


def _unknown_flag(word: str) -> str:
    near = _nearest_flag(word)
    meant = f"did you mean {near}?" if near else "only a fork can read it."
    return f"{word} is not a flag of OpenRLHF up to {RELEASES[-1]}: {meant}"


def _nearest_flag(word: str) -> str | None:
    return next(iter(difflib.get_close_matches(word, sorted(all_flags()), 1, 0.8)), None)


def _correction(word: str) -> str | None:
    near = _nearest_flag(word)
    return f"rename {word} to {near}" if near else None


def _settings(asked: ParsedArgs) -> dict[str, str]:
    return {asked.flag(name): told for name in _SETTINGS if (told := asked.value_in_words(name)) is not None}
