"""Finds the present step and the times of the last steps in the last lines of a training job's log (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from cockpit.failures.log_lines import LogLine, read_lines
from cockpit.model import LogSteps, Phase, Step

MAX_STEP_CHARS: Final = 16_000
"""Characters of a line that are read. The limit is high, because veRL prints the seconds at the end of a long line."""
MAX_LOGGED_STEPS: Final = 20
MAX_SECONDS: Final = 1e6
_DAY_S: Final = 86_400.0
_NUMBER: Final = r"-?\d{1,12}(?:\.\d{1,18})?(?:e[+-]?\d{1,3})?"
_KEYED: Final = re.compile(
    rf"\b((?:timing_s|timing|timeperf|perf|time)/\w{{1,60}})['\"]?[\s:=│|]{{1,60}}(?:np\.float(?:32|64)\()?({_NUMBER})"
)
"""`timing_s/gen:1.2`, `'timing/generate': 1.2`, `│ timeperf/rollout │ 1.2e+00 │`, in lines of any framework."""
_SECTION: Final = re.compile(r"(?:- )?(timing_s|perf):$")
_IN_SECTION: Final = re.compile(rf"\s{{1,8}}(?:- )?(\w{{1,60}}): ({_NUMBER})$")
"""EasyR1 writes the name of a section on one line, and its keys on the lines below."""
_BULLET: Final = re.compile(r"\s{0,8}• (\w[\w /]{0,60}): (\d{1,9}\.\d{1,9})s\b")
"""NeMo-RL: `  • Total step time: 12.34s`, `  • generation: 5.67s (46.0%)`."""
_PANEL: Final = re.compile(r"[│|\s]{0,8}(time|other) {1,40}(\w{1,60}: [^\n]{1,4000})")
_IN_PANEL: Final = re.compile(rf"(\w{{1,60}}): ({_NUMBER}) {{0,200}}(?:[|│]|$)")
"""open-instruct: `│ time  total: 12.34 | training: 5.67 │`."""
_BAR: Final = r":\s{0,4}\d{1,3}%\|[^|\n]{0,200}\|\s{0,12}(?P<ended>\d{1,9})/(?P<total>\d{1,9}) \[(?P<elapsed>[\d:]{4,12})[<\]]"
"""A progress bar of tqdm, without the name before it."""


class StepForm(msgspec.Struct, frozen=True):
    """How a framework writes the line that names a step."""

    framework: str
    marker: str
    """Each such line has this text. It is searched for first, because that is faster than the pattern."""
    pattern: re.Pattern[str]
    """Its groups. `ended` or `begun`: the number of a step that has ended or begun. `total`: the number of all steps. `elapsed`: the time
    of a bar. `round` and `rounds`: the bar starts again in each of so many rounds."""
    source: str
    first: int = 1
    """The number of the first step."""
    needs: str = ""
    """Another text that the line must have."""


FORMS: Final = (
    StepForm("veRL", "step:", re.compile(r"\bstep:(?P<ended>\d{1,9}) - "), "verl v0.2-v0.9 utils/logger/aggregate_logger.py"),
    StepForm("veRL", "Training Progress", re.compile(r"Training Progress" + _BAR), "verl v0.9 trainer/ppo/ray_trainer.py: its bar"),
    StepForm("EasyR1", "Step ", re.compile(r"^Step (?P<ended>\d{1,9})$"), "EasyR1 utils/logger/logger.py:61"),
    StepForm("rLLM", ", step ", re.compile(r"epoch \d{1,6}, step (?P<begun>\d{1,9}) started"), "rLLM trainer; else as veRL"),
    StepForm("OpenRLHF", "Global step ", re.compile(r"(?:✨ )?Global step (?P<ended>\d{1,9}): \{"),
             "OpenRLHF v0.11.0 trainer/ppo_trainer.py:547, ppo_trainer_async.py:244"),
    StepForm("OpenRLHF", "Episode [", re.compile(r"Episode \[(?P<round>\d{1,6})/(?P<rounds>\d{1,6})\]" + _BAR),
             "OpenRLHF v0.6.4 trainer/ppo_trainer.py: its bar; one batch of prompts is a step"),
    StepForm("slime", "perf ", re.compile(r"\bperf (?P<ended>\d{1,9}): \{"),
             "slime backends/megatron_utils/train_metric_utils.py; the other lines `perf` are of the rollout", first=0, needs="perf/train_time"),
    StepForm("SkyRL", "Step ", re.compile(r"\bStep (?P<ended>\d{1,9}):(?: |$)"), "SkyRL train/utils/tracking.py:189"),
    StepForm("SkyRL", "Training Batches Processed", re.compile(r"Training Batches Processed" + _BAR), "SkyRL train/trainer.py: its bar"),
    StepForm("NeMo-RL", "= Step ", re.compile(r"={25} Step (?P<begun>\d{1,9})/(?P<total>\d{1,9}) ={25}"), "NeMo-RL v0.7.0 algorithms/grpo.py:2244,3652"),
    StepForm("ROLL", "pipeline ", re.compile(r"\bpipeline (?:rollout global )?step (?P<begun>\d{1,9}) start"),
             "ROLL v0.3.0 pipeline/rlvr/rlvr_pipeline.py:487, agentic/agentic_pipeline.py:232", first=0),
    StepForm("ROLL", "pipeline ", re.compile(r"\bpipeline step (?P<ended>\d{1,9}) finished"), "ROLL v0.3.0 rlvr_pipeline.py:840", first=0),
    StepForm("open-instruct", "Running training step", re.compile(r"Running training step (?P<begun>\d{1,9})\b"), "open-instruct grpo_fast.py"),
    StepForm("AReaL", "Train step ", re.compile(r"\bTrain step (?P<ended>\d{1,9})/(?P<total>\d{1,9}) done"), "AReaL v1.0.4 utils/stats_logger.py:138"),
)  # fmt: skip
WHOLE: Final[Mapping[str, tuple[str, ...]]] = {
    "veRL": ("perf/time_per_step", "timing_s/step"),
    "OpenRLHF": ("timing/step_total",),
    "slime": ("perf/step_time",),
    "SkyRL": ("timing/step",),
    "NeMo-RL": ("Total step time",),
    "open-instruct": ("time/total",),
}
"""By framework: the name of the value that has the seconds of a whole step."""
PARTS: Final[Mapping[str, Mapping[Phase, str]]] = {
    "veRL": {
        "rollout": "timing_s/gen",
        "scoring": "timing_s/reward timing_s/old_log_prob timing_s/old timing_s/ref timing_s/values",
        "training": "timing_s/update_critic timing_s/update_actor",
        "weight sync": "timing_s/update_weights",
        "checkpoint": "timing_s/save_checkpoint",
        "evaluation": "timing_s/testing timing_s/validation",
    },
    "OpenRLHF": {"rollout": "timing/generation", "training": "timing/ppo_train", "weight sync": "timing/broadcast"},
    "slime": {
        "scoring": "perf/log_probs_time perf/ref_log_probs_time",
        "training": "perf/actor_train_time",
        "weight sync": "perf/update_weights_time",
    },
    "SkyRL": {
        "rollout": "timing/generate",
        "scoring": "timing/fwd_logprobs_values_reward",
        "training": "timing/train_critic_and_policy",
        "weight sync": "timing/sync_weights",
        "checkpoint": "timing/save_checkpoints",
        "evaluation": "timing/eval",
    },
    "NeMo-RL": {
        "rollout": "generation",
        "scoring": "policy_and_reference_logprobs",
        "training": "policy_training",
        "checkpoint": "checkpointing",
    },
    "ROLL": {"rollout": "time/step_generate", "training": "time/step_train", "weight sync": "time/step_model_update"},
    "open-instruct": {"training": "time/training"},
    "AReaL": {
        "rollout": "timeperf/rollout",
        "scoring": "timeperf/recompute_logp timeperf/ref_logp",
        "training": "timeperf/train_step",
        "weight sync": "timeperf/update_weights",
        "checkpoint": "timeperf/save",
        "evaluation": "timeperf/eval",
    },
}
"""By framework and phase: the names of the values that add up to the seconds of the phase. The sources are those of `FORMS`."""


class PhaseForm(msgspec.Struct, frozen=True):
    """How a framework writes the line on the begin or the end of a part of a step."""

    framework: str
    marker: str
    pattern: re.Pattern[str]
    """Its groups. `begun` or `ended`: the name of the part that begins or ends."""
    phases: Mapping[str, Phase]
    """By the name of the part: its phase."""
    source: str


PHASE_FORMS: Final = (
    PhaseForm(
        "slime",
        "Timer ",
        re.compile(r"\bTimer (?:(?P<begun>\w{1,40}) start\b|(?P<ended>\w{1,40}) end \()"),
        {
            "data_preprocess": "scoring",
            "ref_log_probs": "scoring",
            "log_probs": "scoring",
            "actor_train": "training",
            "update_weights": "weight sync",
            "save_model": "checkpoint",
        },
        "slime observability/timer.py:24,32, miles utils/timer.py:31,42",
    ),
    PhaseForm(
        "SkyRL",
        "ed: '",
        re.compile(r"(?:\bStarted: '(?P<begun>\w{1,40})'|\bFinished: '(?P<ended>\w{1,40})', time cost)"),
        {
            "generate": "rollout",
            "fwd_logprobs_values_reward": "scoring",
            "train_critic_and_policy": "training",
            "sync_weights": "weight sync",
            "eval": "evaluation",
            "save_checkpoints": "checkpoint",
        },
        "SkyRL train/utils/utils.py:39-53",
    ),
    PhaseForm(
        "OpenRLHF",
        "Evaluation ",
        re.compile(r"(?:⏰ (?P<begun>Evaluation) start time|✨ (?P<ended>Evaluation) completed)"),
        {"Evaluation": "evaluation"},
        "OpenRLHF v0.11.0 trainer/ppo_trainer.py",
    ),
)
ARGUMENTS: Final = (
    ("veRL", re.compile(r"(?<!\S)\+{0,2}trainer\.total_training_steps=(\d{1,9})(?!\S)")),
    ("EasyR1", re.compile(r"(?<!\S)trainer\.max_steps=(\d{1,9})(?!\S)")),
    ("slime", re.compile(r"(?<!\S)--num-rollout[ =](\d{1,9})(?!\S)")),
)
"""By framework: the argument of its command that sets the exact number of steps."""
_LIKE_VERL: Final = ("veRL", "EasyR1", "rLLM")
_ALIKE: Final = (_LIKE_VERL, ("OpenRLHF", "open-instruct"))
"""Groups of frameworks whose classes have the same names in part. Titles do not show which of them runs."""


class LoggedStep(msgspec.Struct):
    """A step that has ended."""

    number: int
    moment: float | None = None
    """The time of its line, by a clock in the log. Only differences of such times have a meaning."""
    values: dict[str, float] = {}
    """By name: the seconds that the log prints for the step."""


class StepLines(msgspec.Struct, frozen=True):
    """The steps that were found in the lines."""

    framework: str
    running: int
    first: int
    total: int | None
    steps: tuple[LoggedStep, ...]
    """The last ended steps, in order."""
    phase: Phase | None
    phase_line: str | None
    """The line that shows the phase."""


class _Finder:
    """Reads one line after the other, and keeps what they say about steps."""

    def __init__(self) -> None:
        self.framework: str | None = None
        self.first = 1
        self.running: int | None = None
        self.total: int | None = None
        self.bar: tuple[int, int] | None = None
        """From the progress bar: the number of ended steps, and of all steps."""
        self.bar_moment: float | None = None
        self.steps: dict[int, LoggedStep] = {}
        self.current: LoggedStep | None = None
        """The step to which the values on the next lines belong."""
        self.section: str | None = None
        self.phase: Phase | None = None
        self.phase_name: str | None = None
        self.phase_line: str | None = None

    def take(self, line: LogLine, forms: Sequence[StepForm], phase_forms: Sequence[PhaseForm]) -> None:
        text = line.text
        for form in forms:
            if form.marker in text and form.needs in text and (found := form.pattern.search(text)) is not None:
                self._take_step(form, found.groupdict(), line.clock)
        for phase_form in phase_forms:
            if phase_form.marker in text and (found := phase_form.pattern.search(text)) is not None:
                self._take_phase(phase_form, found.groupdict(), line)
        if self.current is not None:
            self._take_values(text, self.current.values)

    def _take_step(self, form: StepForm, parts: Mapping[str, str | None], clock: float | None) -> None:
        begun, ended, total, elapsed = _int(parts, "begun"), _int(parts, "ended"), _int(parts, "total"), parts.get("elapsed")
        if elapsed is not None:
            place, rounds = _int(parts, "round") or 1, _int(parts, "rounds") or 1
            if ended is not None and total and ended <= total and place <= rounds:
                self._follow(form)
                self.bar, self.bar_moment = ((place - 1) * total + ended, rounds * total), _elapsed_seconds(elapsed)
            return
        number = ended if ended is not None else begun
        if number is None:
            return
        self._follow(form)
        self.total = total or self.total
        if self.running is not None and number < self.running - 1:
            self.steps.clear()  # the log counts from the start again
            self.current = None
        last = number if ended is not None else number - 1
        if last not in self.steps and last >= form.first:
            # Values that were printed since the step began belong to it.
            values = self.current.values if self.current is not None and self.current.number == last else {}
            self.steps[last] = LoggedStep(last, clock, values)
        self.running = last + 1
        if ended is not None:
            self.current = self.steps.get(last)
        elif self.current is None or self.current.number != number:
            self.current = LoggedStep(number)

    def _follow(self, form: StepForm) -> None:
        if form.framework != self.framework:
            same_family = self.framework in _LIKE_VERL and form.framework in _LIKE_VERL
            if self.framework is not None and not same_family:
                self.steps.clear()
                self.running = self.total = None
                self.bar = self.current = None
            self.framework, self.first = form.framework, form.first

    def _take_phase(self, form: PhaseForm, parts: Mapping[str, str | None], line: LogLine) -> None:
        begun, ended = parts.get("begun"), parts.get("ended")
        if begun is not None and begun in form.phases:
            self.phase, self.phase_name = form.phases[begun], begun
            self.phase_line = f"{line.clock} {line.pid} {line.text[:200]}"
        elif ended is not None and ended == self.phase_name:
            self.phase = self.phase_name = self.phase_line = None

    def _take_values(self, text: str, values: dict[str, float]) -> None:
        if "/" in text:
            for found in _KEYED.finditer(text):
                _add(values, found[1], found[2])
        if (begin := _SECTION.match(text)) is not None:
            self.section = begin[1]
        elif self.section is not None:
            if (inside := _IN_SECTION.match(text)) is not None:
                _add(values, f"{self.section}/{inside[1]}", inside[2])
            else:
                self.section = None
        if "•" in text and (bullet := _BULLET.match(text)) is not None:
            _add(values, bullet[1], bullet[2])
        if self.framework == "open-instruct" and (panel := _PANEL.match(text)) is not None and panel[1] == "time":
            for found in _IN_PANEL.finditer(panel[2]):
                _add(values, f"time/{found[1]}", found[2])


def _int(parts: Mapping[str, str | None], name: str) -> int | None:
    text = parts.get(name)
    return int(text) if text else None


def _add(values: dict[str, float], name: str, number: str) -> None:
    seconds = float(number)
    if 0 <= seconds <= MAX_SECONDS and len(values) < 200:
        values[name] = seconds


def _elapsed_seconds(text: str) -> float | None:
    """The seconds in `1:02:03`, the time of a progress bar."""
    parts = text.split(":")
    if not 2 <= len(parts) <= 3 or not all(part.isdecimal() for part in parts):
        return None
    return float(sum(int(part) * 60**place for place, part in enumerate(reversed(parts))))


def find_steps(lines: Iterable[str], framework: str | None = None, entrypoint: str = "") -> StepLines | None:
    """Find the steps in the last lines of a log; `None`: there are none. `framework`: the one whose classes the job has; `None`: unknown.

    If a line of another framework follows, only the lines from there on count.
    """
    known = {form.framework for form in FORMS}
    family = next((names for names in _ALIKE if framework in names), (framework,) if framework in known else None)
    forms = [form for form in FORMS if family is None or form.framework in family]
    phase_forms = [form for form in PHASE_FORMS if family is None or form.framework in family]
    finder = _Finder()
    for line in read_lines(lines, most=MAX_STEP_CHARS):
        finder.take(line, forms, phase_forms)
    if finder.framework is None:
        return None
    current = finder.current
    if current is not None and current.number == finder.running and current.values and _whole(finder.framework, current.values):
        finder.steps[current.number] = current  # the log has printed its seconds, so it has ended
        finder.running = current.number + 1
    total, running = finder.total, finder.running
    if finder.bar is not None:
        done, of = finder.bar
        if running is None:
            running = done + finder.first
            if done:
                finder.steps[done] = LoggedStep(done, finder.bar_moment)
        if abs(done - (running - finder.first)) <= 1:
            total = total or of
    if running is None:
        return None
    total = _argument(finder.framework, entrypoint) or total
    if total is not None and running - finder.first > total:
        total = None
    ended = sorted(finder.steps.values(), key=lambda step: step.number)[-MAX_LOGGED_STEPS:]
    return StepLines(finder.framework, running, finder.first, total, tuple(ended), finder.phase, finder.phase_line)


def _argument(framework: str, entrypoint: str) -> int | None:
    """The number of steps that the command sets; `None`: none, or several different ones."""
    found = {int(each) for name, pattern in ARGUMENTS if name == framework for each in pattern.findall(entrypoint[:20_000])}
    return found.pop() if len(found) == 1 else None


def _whole(framework: str, values: Mapping[str, float]) -> float | None:
    names = WHOLE.get("veRL" if framework in _LIKE_VERL else framework, ())
    return next((values[name] for name in names if values.get(name)), None)


def _parts(framework: str, values: Mapping[str, float]) -> tuple[tuple[Phase, float], ...]:
    table = PARTS.get("veRL" if framework in _LIKE_VERL else framework, {})
    sums = [(phase, sum(values.get(name, 0.0) for name in names.split())) for phase, names in table.items()]
    return tuple((phase, round(seconds, 3)) for phase, seconds in sums if seconds)


def log_steps(
    found: StepLines, job: str, read: float, written: float, before: LogSteps | None = None, *, is_old_phase: bool = False
) -> LogSteps:
    """Add the times of begin and end to the steps that were found.

    `before`: the result of the last read. `is_old_phase`: the last read had the same line on the phase. `written`: when the log was last
    written. A step ended at some time between two reads; its duration is exact.
    """
    known = {step.number: step for step in before.ended} if before is not None and before.framework == found.framework else {}
    if before is not None and found.running < before.running:
        known = {}  # the log counts from the start again
    dated: list[Step] = []
    end = written
    for place in range(len(found.steps) - 1, -1, -1):
        step = found.steps[place]
        same = known.get(step.number)
        if same is not None:
            dated.append(same)
            end = same.began
            continue
        seconds = _seconds_of(found, place)
        if seconds is None:
            continue
        dated.append(Step(job, end - seconds, end, step.number, is_longer=_is_longer(found, step)))
        end -= seconds
    shown = {step.number for step in dated}
    kept = [step for number, step in known.items() if number not in shown]
    ended = sorted((*kept, *dated), key=lambda step: step.number or 0)[-MAX_LOGGED_STEPS:]
    phase_seen = before.phase_seen if before is not None and is_old_phase else read
    return LogSteps(
        job,
        read,
        found.framework,
        found.running,
        total=found.total,
        left=None if found.total is None else max(0, found.total - (found.running - found.first)),
        ended=tuple(ended),
        parts=_parts(found.framework, found.steps[-1].values) if found.steps else (),
        phase=found.phase,
        phase_seen=phase_seen if found.phase else None,
    )


def _seconds_of(found: StepLines, place: int) -> float | None:
    """The seconds of a step: the printed ones, else the time between its line and the line of the step before."""
    step, before = found.steps[place], found.steps[place - 1] if place else None
    if (printed := _whole(found.framework, step.values)) is not None:
        return printed
    if before is None or before.number != step.number - 1 or step.moment is None or before.moment is None:
        return None
    between = (step.moment - before.moment) % _DAY_S
    return between if 0 < between < _DAY_S / 2 else None


def _is_longer(found: StepLines, step: LoggedStep) -> bool:
    return any(phase in ("checkpoint", "evaluation") and seconds > 0 for phase, seconds in _parts(found.framework, step.values))
