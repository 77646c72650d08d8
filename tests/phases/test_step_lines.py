"""The number, the duration and the phases of steps are read from the lines that training frameworks print."""

from __future__ import annotations

import time

import pytest

from cockpit.phases.step_lines import FORMS, MAX_LOGGED_STEPS, PARTS, PHASE_FORMS, WHOLE, StepLines, find_steps, log_steps

NOW = 1_800_000_000.0


def found(*lines: str, framework: str | None = None, entrypoint: str = "") -> StepLines:
    steps = find_steps(lines, framework, entrypoint)
    assert steps is not None
    return steps


def seconds(steps: StepLines) -> list[tuple[int | None, float]]:
    return [(step.number, round(step.seconds, 2)) for step in log_steps(steps, "job:a", NOW, NOW).ended]


def parts(steps: StepLines) -> dict[str, float]:
    return dict(log_steps(steps, "job:a", NOW, NOW).parts)


VERL = "step:{} - actor/pg_loss:0.012 - perf/time_per_step:{} - timing_s/gen:{} - timing_s/ref:2.000 - timing_s/update_actor:10.000"


def test_verl():
    steps = found(
        "(TaskRunner pid=812, ip=10.0.0.2) step:0 - val-core/gsm8k/acc:0.1",
        "(TaskRunner pid=812, ip=10.0.0.2) " + VERL.format(11, "33.100", "20.500"),
        "(TaskRunner pid=812, ip=10.0.0.2) " + VERL.format(12, "np.float64(34.5)", "np.float64(21.0)"),
        "\x1b[36m(TaskRunner pid=812)\x1b[0m Training Progress:  12%|█▏        | 12/100 [06:40<48:53, 33.3s/it]",
    )
    assert (steps.framework, steps.running, steps.total) == ("veRL", 13, 100)
    assert seconds(steps) == [(11, 33.1), (12, 34.5)]
    assert parts(steps) == {"rollout": 21.0, "scoring": 2.0, "training": 10.0}


def test_a_long_line_of_verl_is_read_to_its_end():
    long = (
        "step:7 - " + " - ".join(f"actor/a_long_name_of_a_metric_{number}:0.123" for number in range(150)) + " - perf/time_per_step:50.250"
    )
    assert len(long) > 4000
    assert seconds(found(long)) == [(7, 50.25)]


def test_openrlhf_with_its_own_step():
    steps = found(
        "✨ Global step 3: {'policy_loss': 0.1, 'timing/make_experience': 40.2, 'timing/generation': 31.0, 'timing/ppo_train': 12.5, "
        "'timing/broadcast': 1.5, 'timing/step_total': 54.75}",
        "🚀 Starting experience making with 128 prompts",
    )
    assert (steps.framework, steps.running, steps.total) == ("OpenRLHF", 4, None)
    assert seconds(steps) == [(3, 54.75)]
    assert parts(steps) == {"rollout": 31.0, "training": 12.5, "weight sync": 1.5}


def test_openrlhf_asynchronous():
    assert found("(TrainingActor pid=5) Global step 8: {'reward': 0.5}").running == 9


def test_old_openrlhf_by_its_bar():
    steps = found("(ActorModelRayActor pid=9) Episode [2/4]:  33%|███▎      | 3/9 [01:30<03:00, 30.00s/it, kl=0.1]")
    assert (steps.running, steps.total) == (9 + 3 + 1, 36)
    assert seconds(steps) == [], "one line doesn't say how long the step took"


def test_slime_counts_from_zero():
    steps = found(
        "[2026-11-28 10:00:00] metrics.py:268 - perf 5: {'perf/rollout_time': 20.0}",
        "[2026-11-28 10:01:00] train_metric_utils.py:135 - rollout 5: {'rollout/raw_reward': 0.5}",
        "(MegatronTrainRayActor pid=44) [2026-11-28 10:01:30] model.py:918 - step 11: {'train/loss': 0.1}",
        "(MegatronTrainRayActor pid=44) [2026-11-28 10:01:31] train_metric_utils.py:401 - perf 5: {'perf/log_probs_time': 8.5, "
        "'perf/actor_train_time': 30.5, 'perf/train_time': 40.0, 'perf/step_time': 95.5}",
        "[2026-11-28 10:02:00] metrics.py:268 - perf 6: {'perf/rollout_time': 21.0}",
        framework="slime",
        entrypoint="python train.py --num-rollout 3000 --rollout-batch-size 32",
    )
    assert (steps.running, steps.total) == (6, 3000), "rollout 6 has begun; that its rollout is made doesn't end it"
    assert log_steps(steps, "job:a", NOW, NOW).left == 2994
    assert seconds(steps) == [(5, 95.5)]
    assert parts(steps) == {"scoring": 8.5, "training": 30.5}


@pytest.mark.parametrize(
    ("lines", "phase"),
    [
        (["Timer data_preprocess start"], "scoring"),
        (["Timer ref_log_probs start", "Timer ref_log_probs end (elapsed: 3.1s)"], None),
        (["Timer log_probs start", "Timer log_probs end (elapsed: 3.1s)", "Timer actor_train start"], "training"),
        (["Timer train start"], None),
        (["Timer save_model start", "Timer train_wait end (elapsed: 3.1s)"], "checkpoint"),
    ],
)
def test_slimes_timers_say_the_phase(lines, phase):
    begin = "perf 5: {'perf/train_time': 40.0}"
    steps = found(begin, *(f"(MegatronTrainRayActor pid=4) [2026-11-28 10:00:00] timer.py:24 - {line}" for line in lines))
    assert steps.phase == phase


def test_skyrl():
    steps = found(
        "2026-11-28 10:00:00.123 | INFO     | skyrl.train.utils.utils:__enter__:39 - Started: 'step'",
        "(skyrl_entrypoint pid=31) Step 41: ",
        "(skyrl_entrypoint pid=31) {'reward/avg': 0.5,",
        "(skyrl_entrypoint pid=31)  'timing/generate': 30.25,",
        "(skyrl_entrypoint pid=31)  'timing/fwd_logprobs_values_reward': 5.5,",
        "(skyrl_entrypoint pid=31)  'timing/train_critic_and_policy': 11.0,",
        "(skyrl_entrypoint pid=31)  'timing/policy_train': 10.0,",
        "(skyrl_entrypoint pid=31)  'timing/step': 50.0}",
        "(skyrl_entrypoint pid=31) Training Batches Processed:   8%|▊         | 41/500 [34:10<6:22:30, 50.0s/it]",
        "2026-11-28 10:00:01.123 | INFO     | skyrl.train.utils.utils:__enter__:39 - Started: 'generate'",
    )
    assert (steps.framework, steps.running, steps.total, steps.phase) == ("SkyRL", 42, 500, "rollout")
    assert seconds(steps) == [(41, 50.0)]
    assert parts(steps) == {"rollout": 30.25, "scoring": 5.5, "training": 11.0}


def test_nemo_rl_says_which_step_begins():
    rule = "=" * 25
    lines = [
        f"{rule} Step 7/200 {rule}",
        "▶ Preparing batch...",
        "⏱️  Timing:",
        "  • Total step time: 61.50s",
        "  • generation: 40.25s (65.4%)",
        "  • policy_training: 12.00s (19.5%)",
    ]
    steps = found(*lines)
    assert (steps.framework, steps.running, steps.total) == ("NeMo-RL", 8, 200), "its seconds are printed, so it has ended"
    assert seconds(steps) == [(7, 61.5)]
    steps = found(*lines, f"{rule} Step 8/200 {rule}")
    assert (steps.running, seconds(steps)) == (8, [(7, 61.5)])
    assert parts(steps) == {"rollout": 40.25, "training": 12.0}


def test_roll_by_the_times_of_its_lines():
    mark = "[{}] [INFO] [rlvr_pipeline.py (487)] [DRIVER]: pipeline step {}"
    steps = found(
        mark.format("2026-11-28 23:59:00", "3 start..."),
        mark.format("2026-11-28 23:59:50", "3 finished"),
        mark.format("2026-11-28 23:59:50", "4 start..."),
        '[2026-11-29 00:00:40] [INFO] [tracking.py (161)] metrics_tag: {"step": 4, "metrics": {"time/step_generate": 30.5, "time/step_train": 9}}',
        mark.format("2026-11-29 00:00:50", "4 finished"),
        mark.format("2026-11-29 00:00:51", "5 start..."),
        framework="ROLL",
    )
    assert (steps.running, steps.first) == (5, 0)
    assert seconds(steps) == [(3, 50.0), (4, 60.0)]
    assert parts(steps) == {"rollout": 30.5, "training": 9.0}


def test_easyr1():
    steps = found(
        "(Runner pid=12) Step 9",
        "(Runner pid=12) actor:",
        "(Runner pid=12)   entropy_loss: 0.3",
        "(Runner pid=12) perf:",
        "(Runner pid=12)   time_per_step: 71.5",
        "(Runner pid=12) timing_s:",
        "(Runner pid=12)   gen: 40.0",
        "(Runner pid=12)   update_actor: 20.0",
        framework="veRL",
        entrypoint="python3 -m verl.trainer.main config=x.yaml trainer.max_steps=60",
    )
    assert (steps.framework, steps.running, steps.total) == ("EasyR1", 10, 60)
    assert seconds(steps) == [(9, 71.5)]
    assert parts(steps) == {"rollout": 40.0, "training": 20.0}


def test_open_instruct():
    steps = found(
        "Running training step 4: 100%|██████████| 8/8 [00:20<00:00]",
        "[Main Thread] 🗡️ Training: 20.100 seconds",
        "╭─────── Metrics ───────╮",
        "│ other   training_step: 4 | episode: 512 │",
        "│ time    total: 45.50 | training: 20.10 │",
        "╰───────────────────────╯",
        framework="open-instruct",
    )
    assert steps.running == 5
    assert seconds(steps) == [(4, 45.5)]
    assert parts(steps) == {"training": 20.1}


def test_open_instructs_engine_has_the_name_of_openrlhfs():
    assert found("Running training step 4: 100%|█| 8/8 [00:20<00:00]", framework="OpenRLHF").running == 4


def test_areal_by_the_times_of_its_lines():
    line = "20261128-{} StatsLogger INFO: Epoch 1/10 Step {}/468 Train step {}/4680 done."
    steps = found(
        line.format("10:00:00.500", 21, 21),
        line.format("10:01:30.750", 22, 22),
        "20261128-10:01:30.751 StatsLogger INFO: Stats (1/1):",
        "│ timeperf/rollout    │ 6.1500e+01 │ timeperf/train_step │ 1.9000e+01 │",
    )
    assert (steps.framework, steps.running, steps.total) == ("AReaL", 23, 4680)
    assert seconds(steps) == [(22, 90.25)]
    assert parts(steps) == {"rollout": 61.5, "training": 19.0}


def test_rllm_says_which_step_begins():
    steps = found("(TaskRunner pid=7) " + VERL.format(5, "30.0", "20.0"), "(TaskRunner pid=7) epoch 0, step 6 started", framework="veRL")
    assert (steps.running, seconds(steps)) == (6, [(5, 30.0)])


def test_the_argument_of_the_command_counts_only_if_it_is_exact():
    line = VERL.format(5, "30.0", "20.0")
    assert found(line, entrypoint="python3 -m verl.trainer.main_ppo trainer.total_training_steps=500 data.x=1").total == 500
    assert found(line, entrypoint="bash run.sh trainer.total_training_steps=$STEPS").total is None
    assert found(line, entrypoint="a trainer.total_training_steps=5 ; b trainer.total_training_steps=6").total is None
    assert found(line, entrypoint="trainer.total_training_steps=3").total is None, "it is in step 6"
    assert found(line, entrypoint="x --num-rollout 100").total is None, "that is slime's"


def test_a_job_that_counts_anew_has_no_steps_of_before():
    steps = found(*(VERL.format(number, "30.0", "1") for number in (90, 91, 1)))
    assert (steps.running, seconds(steps)) == (2, [(1, 30.0)])


def test_lines_of_another_framework_than_the_jobs_are_not_read():
    assert find_steps(["Step 5:", "step:5 - a:1"], framework="AReaL") is None
    assert found("Step 5", framework="vLLM").running == 6, "an engine's classes don't say who trains"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "step: 5",
        "next step:5 of 9",
        "the Step 5 of it",
        "perf 5: nothing",
        "Global step 5",
        "Train step 5/9",
        "step:99999999999 - a:1",
        "xStep 5:",
    ],
)
def test_other_lines_are_no_steps(line):
    assert find_steps([line]) is None


def test_what_was_read_before_stays_where_it_was():
    first = log_steps(found(VERL.format(5, "30.0", "1"), VERL.format(6, "40.0", "1")), "job:a", NOW, NOW - 3)
    assert [(step.began, step.ended) for step in first.ended] == [(NOW - 73, NOW - 43), (NOW - 43, NOW - 3)]
    later = log_steps(found(VERL.format(6, "40.0", "1"), VERL.format(7, "50.0", "1")), "job:a", NOW + 50, NOW + 49, first)
    assert [step.number for step in later.ended] == [5, 6, 7]
    assert later.ended[:2] == first.ended
    assert later.ended[2].ended == NOW + 49
    again = log_steps(found(VERL.format(1, "30.0", "1")), "job:a", NOW + 99, NOW + 99, later)
    assert [step.number for step in again.ended] == [1], "it counts anew"


def test_a_step_with_a_checkpoint_is_marked():
    steps = found("step:5 - perf/time_per_step:90.0 - timing_s/gen:20.0 - timing_s/save_checkpoint:30.0", VERL.format(6, "40.0", "1"))
    assert [step.is_longer for step in log_steps(steps, "job:a", NOW, NOW).ended] == [True, False]


def test_since_when_a_phase_is_seen():
    line = "[2026-11-28 10:00:00] Timer actor_train start"
    steps = found("perf 5: {'perf/train_time': 40.0}", line)
    first = log_steps(steps, "job:a", NOW, NOW)
    assert (first.phase, first.phase_seen) == ("training", NOW)
    assert log_steps(steps, "job:a", NOW + 15, NOW + 15, first, is_old_phase=True).phase_seen == NOW
    assert log_steps(steps, "job:a", NOW + 15, NOW + 15, first).phase_seen == NOW + 15


HOSTILE = [
    "step:1 - " * 4000,
    "Training Progress: 10%|" * 1000 + "a" * 20_000,
    "Training Progress:" + " " * 30_000 + "1%|",
    "perf 1: {" * 3000 + "perf/train_time",
    "timing_s/" + "a" * 60_000,
    "timing_s/a" + " " * 60_000 + "1",
    "timing_s/a: " * 5000,
    "│" * 30_000 + "time  a: 1",
    "time  " + "a: 1 | " * 10_000,
    "  • " + "a " * 20_000,
    "Timer " + "a" * 50_000 + " start",
    "=" * 60_000 + " Step 1/2 " + "=" * 60_000,
    "Episode [1/2]" * 5000,
    "\r" * 60_000 + "step:1 - a",
    "step:5 - perf/time_per_step:1e999 - timing_s/gen:-5 - timing_s/gen:nan",
    "Step 1: \x1b]0;" + "x" * 60_000,
    "Started: '" * 9000,
    "Train step 1/2" * 5000,
]


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_lines_take_no_time_and_give_no_nonsense(line):
    begin = time.process_time()
    steps = find_steps([line[:65_536]] * 3)
    assert time.process_time() - begin < 1.0
    if steps is not None:
        logged = log_steps(steps, "job:a", NOW, NOW)
        assert all(0 <= step.seconds <= 1e6 for step in logged.ended)
        assert len(logged.ended) <= MAX_LOGGED_STEPS


def test_a_log_full_of_steps_is_bounded():
    steps = found(*(VERL.format(number, "30.0", "1") for number in range(1, 400)))
    assert [step.number for step in steps.steps] == list(range(400 - MAX_LOGGED_STEPS, 400))


def test_a_total_of_nothing_is_unknown():
    steps = found("Train step 5/0 done", framework="AReaL")
    assert (steps.running, steps.total) == (6, None)


def test_each_form_has_its_source_and_names_only_its_own_parts():
    assert all(form.source and form.marker.strip("= ") in form.pattern.pattern.replace("\\", "") for form in FORMS)
    assert all(form.source for form in PHASE_FORMS)
    assert {*WHOLE, *PARTS} <= {form.framework for form in FORMS}
