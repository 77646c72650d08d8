"""Where the log prints steps, its numbers count; what the titles show must have the same pace."""

from __future__ import annotations

from msgspec.structs import replace

from cockpit.model import Activity, LogSteps, Snapshot, Step
from cockpit.phases import seconds_left
from cockpit.phases.step_lines import StepLines, find_steps, log_steps
from tests.phases.course import JOB, Course
from tests.world import NOW

WORKERS = ("WorkerDict",) * 4


class Logged(Course):
    """A course whose log is read every 15 s; `print` writes a line into it."""

    def __init__(self, *workers: str, framework: str | None = None) -> None:
        self.lines: list[str] = []
        self.read: LogSteps | None = None
        self.found: StepLines | None = None
        self.framework = framework
        super().__init__(*workers)

    def print(self, *lines: str) -> None:
        self.lines += lines

    def _sample(self) -> Snapshot:
        if self.lines and (self.read is None or self.now - self.read.read >= 15):
            found = find_steps(self.lines[-200:], self.framework)
            assert found is not None
            is_old = self.found is not None and self.found.phase_line == found.phase_line
            self.read = log_steps(found, JOB.key, self.now, self.now, self.read, is_old_phase=is_old)
            self.found = found
        self.facts["log_steps"] = (self.read,) if self.read else ()
        return super()._sample()

    @property
    def steps(self) -> list[tuple[int | None, float]]:
        return [(step.number, round(step.seconds)) for step in self.last.steps]


def verl_step(course: Logged, number: int) -> None:
    course.do(12.0, "actor_rollout_generate_sequences")
    course.do(4.0, "actor_rollout_compute_log_prob")
    course.do(8.0, "actor_rollout_update_actor")
    course.print(f"step:{number} - perf/time_per_step:24.000 - timing_s/gen:12.000")


def test_the_number_is_that_of_the_log_also_after_a_restart_from_a_checkpoint():
    course = Logged(*WORKERS)
    course.do(5.0, "actor_rollout_init_model")
    for number in range(401, 413):
        verl_step(course, number)
    course.do(6.0, "actor_rollout_generate_sequences")
    assert course.activity.step == 413
    assert [number for number, _ in course.steps] == [*range(401, 413)]
    assert not course.activity.steps_disagree
    wrong = [one.step for moment, one in course.seen if moment > NOW + 100 and one.step not in (_true(moment), _true(moment - 2.5))]
    assert wrong == []


def _true(moment: float) -> int:
    return 401 + int((moment - NOW - 5.0) // 24)


def test_steps_before_cockpits_start_are_those_of_the_log():
    course = Logged(*WORKERS)
    course.print(*(f"step:{number} - perf/time_per_step:24.000" for number in range(395, 401)))
    course.do(6.0, "actor_rollout_update_actor")
    for number in range(401, 405):
        verl_step(course, number)
    course.do(6.0, "actor_rollout_generate_sequences")
    assert [number for number, _ in course.steps] == [*range(395, 405)]
    assert course.activity.step == 405


def test_another_pace_of_the_titles_gives_no_number_and_the_log_wins():
    course = Logged(*WORKERS)
    course.do(5.0, "actor_rollout_init_model")
    for number in range(1, 15):
        for _ in range(2):  # two updates for each step of the trainer
            course.do(6.0, "actor_rollout_generate_sequences")
            course.do(6.0, "actor_rollout_update_actor")
        course.print(f"step:{number} - perf/time_per_step:24.000")
    assert course.activity.steps_disagree
    assert course.activity.step in (14, 15)
    assert {seconds for _, seconds in course.steps} == {24}
    assert course.steps[-1][0] in (13, 14)


def test_a_framework_whose_titles_show_no_step_has_those_of_its_log():
    course = Logged("RayRPCServer", "RayRPCServer")
    for number in range(1, 9):
        course.run({0: "RayRPCServer.call", 1: "RayRPCServer.call"}, 30.0)
        clock = int(course.now - NOW)
        stamp = f"20261128-10:{clock // 60:02}:{clock % 60:02}.000"
        course.print(f"{stamp} StatsLogger INFO: Epoch 1/2 Step {number}/50 Train step {number}/100 done.")
    course.do(16.0)
    assert course.steps == [(number, 30) for number in range(2, 9)]
    activity = course.activity
    assert (activity.framework, activity.step, activity.total_steps, activity.steps_left) == ("AReaL", 9, 100, 92)
    assert activity.step_began is not None
    assert abs(activity.step_began - (NOW + 240)) <= 17
    assert activity.phase is None


def test_slimes_timers_divide_its_training_call():
    course = Logged("MegatronTrainRayActor", "RolloutManager", framework="slime")
    course.print("perf 4: {'perf/train_time': 30.0}")
    course.do(20.0, "generate", 1)
    course.run({0: "MegatronTrainRayActor.train"}, 4.0)
    course.print("[2026-11-28 10:00:00] Timer log_probs start")
    course.run({}, 20.0)
    assert (course.activity.phase, course.activity.is_phase_logged) == ("scoring", True)
    course.print("[2026-11-28 10:00:20] Timer log_probs end (elapsed: 20.0s)", "[2026-11-28 10:00:20] Timer actor_train start")
    course.run({}, 20.0)
    assert (course.activity.phase, course.activity.is_phase_logged) == ("training", True)
    course.print("[2026-11-28 10:00:40] Timer actor_train end (elapsed: 20.0s)", "[2026-11-28 10:00:41] Timer log_probs start")
    course.run({0: "MegatronTrainRayActor.update_weights"}, 20.0)
    assert (course.activity.phase, course.activity.is_phase_logged) == ("weight sync", False), "this title hides nothing"
    assert "scoring" not in course.phases, "what is late is not drawn into the history"


def test_an_old_line_about_a_phase_says_nothing_about_a_new_call():
    course = Logged("MegatronTrainRayActor", "RolloutManager", framework="slime")
    course.print("perf 4: {'perf/train_time': 30.0}", "Timer log_probs start")
    course.do(40.0, "generate", 1)
    course.run({0: "MegatronTrainRayActor.train"}, 10.0)
    assert (course.activity.phase, course.activity.is_phase_logged) == ("training", False)


def test_the_log_is_forgotten_and_the_titles_count_on():
    course = Logged(*WORKERS)
    course.do(5.0, "actor_rollout_init_model")
    for number in range(31, 36):
        verl_step(course, number)
    course.lines, course.read = [], None
    verl_step(course, 36)
    course.lines = []
    course.do(6.0, "actor_rollout_generate_sequences")
    assert course.activity.step == 37
    assert course.activity.log is None


def test_how_long_the_job_will_run():
    steps = [Step("job:ppo", NOW + 10 * place, NOW + 10 * place + 10, place) for place in range(4)]
    activity = Activity("job:ppo", steps_left=5, step_began=NOW + 40)
    assert seconds_left(activity, steps, NOW + 43) == 4 * 10 + 7
    assert seconds_left(activity, steps, NOW + 90) == 4 * 10, "the running step is late, and may end now"
    assert seconds_left(activity, steps[:2], NOW + 43) is None
    assert seconds_left(replace(activity, steps_left=None), steps, NOW + 43) is None
    assert seconds_left(replace(activity, steps_left=0), steps, NOW + 43) == 0.0
