"""The training command is found in an entrypoint or a script, and what its job asks for itself is counted."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.budget import Budget, budget_of

FLAGS = (
    "--actor.model_name_or_path m --reward.model_name_or_path r --train.colocate_all --actor.num_gpus_per_node 4 --ref.num_gpus_per_node 4"
)
FLAGS += " --critic.num_gpus_per_node 4 --reward.num_gpus_per_node 4"
MODULE = "openrlhf.cli.train_ppo_ray"
PYTHON = f"python3 -m {MODULE} {FLAGS}"


def gpus(budget: Budget) -> float | None:
    return budget.amount("GPU")


@pytest.mark.parametrize(
    "entrypoint",
    [
        PYTHON,
        f"python3 -u -m {MODULE} {FLAGS} 2>&1 | tee log.txt",
        f"/opt/env/bin/python openrlhf/cli/train_ppo_ray.py {FLAGS}",
        f"deepspeed --module {MODULE} {FLAGS}",
        f"cd /workspace && nohup {PYTHON} &",
        f"set -x\nexport X=1\n{PYTHON.replace(' --', ' ' + chr(92) + chr(10) + '   --')}\n",
        f"ray job submit --address=http://127.0.0.1:8265 --no-wait -- {PYTHON}",
        f"""ray job submit --address "http://h:8265" --runtime-env-json='{{"working_dir": "/w", "env_vars": {{"A": "1"}}}}' -- {PYTHON}""",
        f"srun --nodes=1 -w n1 bash -c \"pip install x && ray job submit -- {PYTHON}\" &>> log &",
        f"ARGS=({FLAGS})\npython -m {MODULE} \"${{ARGS[@]}}\"",
    ],
)  # fmt: skip
def test_the_command_is_found_wherever_it_stands(entrypoint: str):
    budget = budget_of(entrypoint)
    assert (budget.framework, gpus(budget), budget.unread) == ("OpenRLHF", 4, ())


def test_a_script_is_read_with_its_variables():
    files = {"run.sh": f"N=${{1:-2}}; {PYTHON} --actor.num_nodes $N --ref.num_nodes $N"}
    assert gpus(budget_of("bash run.sh", read=files.get)) == 8
    assert gpus(budget_of("bash run.sh 3", read=files.get)) == 12
    assert gpus(budget_of("bash run.sh $NODES", read=files.get, env={"NODES": "4"})) == 16
    assert gpus(budget_of("bash run.sh $NODES", read=files.get)) is None
    assert budget_of("bash run.sh").unread == ("run.sh can't be read, so what it runs is unknown",)


@pytest.mark.parametrize("program", ["docker exec trainer bash -lc", "ssh h", "xargs -I@ sh -c"])
def test_a_command_in_the_text_of_another_program_has_no_number_and_that_is_said(program: str):
    budget = budget_of(f"{program} '{PYTHON}'")
    assert (budget.groups, budget.unread) == (None, (f"cockpit does not read what {program.split(maxsplit=1)[0]} starts",))


@pytest.mark.parametrize("kill", ["pkill -f", "sudo pkill -9 -f", "ssh h pkill -f", "kill"])
def test_what_ends_a_training_starts_none(kill: str):
    assert gpus(budget_of(f"{kill} {MODULE}\n{PYTHON}")) == 4


NODES = f"{PYTHON} --actor.num_nodes $NODES --ref.num_nodes $NODES"


@pytest.mark.parametrize(
    "script",
    [
        f"#!/bin/bash\n#SBATCH --nodes=2\nsrun --overlap -N1 {NODES.replace('$NODES', '$SLURM_NNODES')}",
        f"launch() {{ local NODES=$1; shift; {NODES} \"$@\"; }}\nlaunch 2 --train.seed 1",
        f"run() {{ echo \"+ $*\"; \"$@\"; }}\nNODES=2; run {NODES}",
    ],
)  # fmt: skip
def test_nodes_are_counted_however_a_script_comes_to_them(script: str):
    budget = budget_of(script)
    assert (budget.framework, gpus(budget), budget.unread) == ("OpenRLHF", 8, ())


@pytest.mark.parametrize(
    "script",
    [
        f"declare -A SIZES=([7b]=1 [70b]=2)\nMODEL=70b; NODES=${{SIZES[$MODEL]}}\n{NODES}",
        f"declare -i NODES=1; NODES+=1\n{NODES}",
        f"NODES=1; let NODES++\n{NODES}",
        f"NODES=1; while getopts 'n:d' flag; do case $flag in n) NODES=$OPTARG;; esac; done\n{NODES}",
        f"NODES=1; read -r NODES <<< 2\n{NODES}",
        f"NODES=1; mapfile -t NODES < hosts\n{NODES}",
        f"NODES=1; printf -v NODES %s 2\n{NODES}",
        f"HOSTS=h0,h1; NODES=$(tr ',' '\\n' <<< $HOSTS | wc -l)\n{NODES}",
        f"for NODES in {{1..2}}; do true; done\n{NODES}",
        f"NODES=1; WHICH=NODES; NODES=${{!WHICH}}\n{NODES}",
        f"export NODES=2; sudo bash -c '{NODES}'",
        f"export NODES=2; ssh head '{NODES}'",
        f"docker exec -e NODES=2 trainer bash -c '{NODES.replace('$NODES', '${NODES:-1}')}'",
        f"read -r -d '' words <<EOF\n{MODULE} {FLAGS}\nEOF\npython -m $words",
        f"echo 2 | xargs -I@ {PYTHON} --actor.num_nodes @",
        f"HOSTS=()\nfor ((i = 0; i < 2; i++)); do HOSTS+=(h$i); done\nNODES=${{#HOSTS[@]}}; {NODES}",
        f"NODES=2\ncat > /tmp/train.sh <<EOF\nset -e\n{NODES}\nEOF\nchmod +x /tmp/train.sh\nsrun -N1 bash /tmp/train.sh",
        "sbatch gone.sh",
    ],
)  # fmt: skip
def test_what_is_not_followed_gives_no_number(script: str):
    budget = budget_of(script, read={"env.sh": "N=3", "run.sh": NODES}.get)
    assert gpus(budget) is None
    assert budget.unread


@pytest.mark.parametrize(
    "path", ["x; reboot/train_ppo_ray.py", "$(reboot)/train_ppo_ray.py", "`reboot`/train_ppo_ray.py", "a'b/train_ppo_ray.py"]
)
def test_a_program_in_a_command_for_pasting_is_one_word(path: str):
    budget = budget_of(f"torchrun --nproc_per_node=8 {shlex.quote(path)} --actor.num_nodes 1 --actor.num_gpus_per_node 8")
    [change] = [line.change for line in budget.lines if line.change]
    command = change.split("`")[1]
    assert shlex.split(command) == ["python3", path.replace("`", "…")]


@pytest.mark.parametrize(
    ("launcher", "level", "often"),
    [
        ("torchrun --nproc_per_node=8", "never", "8 times"),
        ("torchrun --standalone --nnodes 2 --nproc_per_node 4", "never", "8 times"),
        ("/opt/env/bin/accelerate launch --num_processes 4", "never", "4 times"),
        ("deepspeed --num_gpus 4", "never", "4 times"),
        ("torchrun --nnodes 1:4", "never", "more than once"),
        ("mpirun -np $N", "doubt", "an unknown number of times"),
    ],
)
def test_a_driver_of_ray_that_a_launcher_starts_more_than_once_is_to_be_started_once(launcher: str, level: str, often: str):
    script = f"{launcher} -m {MODULE} {FLAGS}"
    budget = budget_of(script, env={"N": None})
    name = launcher.partition(" ")[0].rpartition("/")[2]
    [line] = [line for line in budget.lines if "starts its own workers" in line.text]
    assert (gpus(budget), line.level) == (4, level)
    assert line.text.startswith(f"{name} starts {MODULE} {often}: it is a Ray driver")
    assert line.change == f"start it once: `python3 -m {MODULE}` with the same arguments, without {name}"
    once = line.change.split("`")[1]
    assert not [line for line in budget_of(script.replace(f"{launcher} -m {MODULE}", once)).lines if "starts its own workers" in line.text]


def test_a_launcher_that_starts_one_process_is_fine():
    budget = budget_of(f"torchrun --standalone --nnodes 1 --nproc_per_node 1 -m {MODULE} {FLAGS}")
    assert (gpus(budget), budget.lines) == (4, budget_of(PYTHON).lines)


@pytest.mark.parametrize(
    "tag", ["git+https://github.com/OpenRLHF/OpenRLHF.git@v0.5.5", "'openrlhf @ git+https://github.com/OpenRLHF/OpenRLHF@v0.5.5'"]
)
def test_a_tag_in_git_tells_the_release(tag: str):
    budget = budget_of(f"pip install {tag}\npython -m {MODULE} --pretrain m --reward_pretrain r --vllm_num_engines 2")
    assert budget.groups is not None
    assert [group.strategy for group in budget.groups[:2]] == ["STRICT_SPREAD", "STRICT_SPREAD"]


def test_a_default_that_decides_is_said_and_another_is_not():
    budget = budget_of(f"W=${{WANDB:-none}}; {PYTHON} --actor.num_nodes ${{NODES:-2}} --ref.num_nodes ${{NODES:-2}}")
    assert gpus(budget) == 8
    assert budget.doubts == ("NODES is treated as unset: nothing in the preset or script sets it",)
    assert not budget_of(f"W=${{WANDB:-none}}; {PYTHON}").doubts


def test_what_a_scheduler_may_set_has_its_default_with_a_doubt():
    nodes = "--actor.num_nodes ${WORLD_SIZE:-2} --ref.num_nodes ${WORLD_SIZE:-2}"
    assert (gpus(budget_of(f"{PYTHON} {nodes}")), budget_of(f"{PYTHON} {nodes}").mark) == (8, "likely")
    assert (gpus(budget_of(f"{PYTHON} {nodes}", env={"WORLD_SIZE": "1"})), budget_of(PYTHON).mark) == (4, "firm")


def test_what_the_shell_exports_is_used_and_said_where_it_decides():
    budget = budget_of(NODES, shell={"NODES": "3", "HOME": "/root"})
    assert (gpus(budget), budget.doubts) == (12, ("NODES=3 of this shell is used",))
    assert gpus(budget_of(f"NODES=2; {NODES}", shell={"NODES": "3"})) == 8
    assert gpus(budget_of(f"ray job submit -- {NODES}", shell={"NODES": "3"})) == 12, "the shell fills it in before it submits"


def test_paths_in_a_job_are_those_of_its_working_dir():
    files = {"code/run.sh": PYTHON, "run.sh": "echo other"}
    assert gpus(budget_of("ray job submit --working-dir code -- bash run.sh", read=files.get)) == 4
    assert budget_of("ray job submit --working-dir s3://x/code.zip -- bash run.sh", read=files.get).groups is None


@pytest.mark.parametrize("option", ["--runtime-env-json", "--entrypoint-resources"])
def test_an_option_of_a_submission_that_is_nested_too_deeply_is_like_no_json(option):
    nested, none = (budget_of(f"ray job submit {option} '{text}' -- {PYTHON}") for text in ("[" * 9_000, "no json"))
    assert nested.amount("GPU") == none.amount("GPU")


def test_a_job_has_the_environment_of_its_runtime_env_alone():
    submit = """export N=8; ray job submit --runtime-env-json '{"env_vars": {"M": "2"}}' --"""
    script = submit + " bash -c '%s --actor.num_nodes $%s --ref.num_nodes $%s'"
    assert gpus(budget_of(script % (PYTHON, "M", "M"))) == 8
    assert gpus(budget_of(script % (PYTHON, "N", "N"))) is None


def test_what_the_job_reserves_itself_comes_first():
    budget = budget_of(f"ray job submit --entrypoint-num-gpus 1 --entrypoint-num-cpus=2 -- {PYTHON}")
    assert (gpus(budget), budget.amount("CPU")) == (5, 6)
    assert (budget.groups or ())[0].name == "entrypoint"
    assert gpus(budget_of(f"ray job submit --entrypoint-num-gpus $N -- {PYTHON}")) is None
    assert gpus(budget_of(PYTHON, job={"CPU": 1, "GPU": 0})) == 4
    assert budget_of(PYTHON, job={"CPU": 1}).amount("CPU") == 5


def test_a_plain_job_asks_for_what_it_says():
    budget = budget_of("python train.py", job={"GPU": 2, "CPU": 4})
    assert (budget.framework, gpus(budget), budget.amount("CPU")) == ("Ray", 2, 4)
    assert gpus(budget_of("ray job submit --entrypoint-num-gpus 3 -- python train.py")) == 3
    nothing = budget_of("python train.py")
    assert (nothing.framework, nothing.groups) == (None, None)
    assert nothing.unread


@pytest.mark.parametrize(
    "text", [f"echo {PYTHON}", f"# {PYTHON}", f"grep {MODULE} x", f"cat <<EOF > run.sh\n{PYTHON}\nEOF", f"if false; then {PYTHON}; fi"]
)
def test_what_only_speaks_of_a_command_does_not_run_it(text: str):
    assert budget_of(text).framework is None


def test_a_command_under_a_condition_that_nobody_knows_is_counted_with_a_doubt():
    budget = budget_of(f"if [ -d /data ]; then {PYTHON}; fi")
    assert gpus(budget) == 4
    assert "only under a condition" in budget.doubts[0]


def test_of_several_commands_that_differ_the_largest_counts_with_a_doubt():
    budget = budget_of(f"{PYTHON}\n{PYTHON} --algo.kl.init_coef 0 --actor.num_nodes 2")
    assert (gpus(budget), budget.doubts) == (8, ("2 training commands ask for different amounts (8 GPUs, 4 GPUs): the largest is counted",))
    assert gpus(budget_of(f"{PYTHON}\n{PYTHON} --actor.num_nodes $N")) is None
    assert gpus(budget_of(f"{PYTHON}\n{PYTHON}")) == 4


def test_the_release_that_is_installed_before_is_the_one_that_counts():
    old = f"python -m {MODULE} --pretrain m --reward_pretrain r --vllm_num_engines 8 --init_kl_coef 0"
    assert (gpus(budget_of(old)), budget_of(old).mark) == (32, "likely")
    assert gpus(budget_of(f"pip install openrlhf==0.5.7\n{old}")) == 40
    assert gpus(budget_of(f"pip install 'openrlhf[vllm]==0.8.5'\n{old}")) == 32
    assert gpus(budget_of(f"""ray job submit --runtime-env-json '{{"pip": ["openrlhf==0.5.7"]}}' -- {old}""")) == 40


@pytest.mark.parametrize(
    ("command", "framework"),
    [
        ("python -m openrlhf.cli.train_ppo_ray_box --pretrain m --vllm_num_engines 1", "simpleRL-reason"),
        ("python3 -m verl.trainer.main_ppo trainer.nnodes=1 trainer.n_gpus_per_node=8", "veRL"),
    ],
)
def test_each_framework_is_read_by_its_own_rules(command: str, framework: str):
    assert budget_of(command).framework == framework


@pytest.mark.parametrize("program", ["verl_tool.trainer.main_ppo", "verl.mix_src.main_mix_ppo", "verl.trainer.main_ppo_format"])
def test_programs_of_forks_are_read_as_their_frameworks(program: str):
    budget = budget_of(f"python3 -m {program} algorithm.adv_estimator=grpo trainer.nnodes=3 trainer.n_gpus_per_node=4")
    assert (budget.framework, gpus(budget), budget.unread) == ("veRL", 12, ())


def test_scoring_what_was_generated_asks_for_nothing():
    generate = "python3 -m verl.trainer.main_generation trainer.nnodes=1 trainer.n_gpus_per_node=4"
    assert gpus(budget_of(f"{generate}\npython3 -m recipe.r1.main_eval data.path=x\npython3 -m verl.trainer.main_eval")) == 4


@pytest.mark.parametrize(
    ("command", "framework", "number"),
    [
        ("python -m main_ppo trainer.nnodes=1 trainer.n_gpus_per_node=8", "veRL", 8),
        ("python -u train_agent.py +trainer.nnodes=2 +trainer.n_gpus_per_node=8", "veRL", 16),
        ("uv run --extra vllm python3 agents/trainer/main_ppo.py trainer.nnodes=1 trainer.n_gpus_per_node=2", "veRL", 2),
        ("my_trainer --actor_num_gpus_per_node 8 --colocate_all_models", "OpenRLHF", 8),
        ('python3 -u "$DIR/train_async.py" --actor-num-nodes 1 --rollout-num-gpus 6', "slime", 14),
        ("uv run --isolated --extra fsdp -m examples.my_main generator.inference_engine.num_engines=4", "SkyRL", 4),
        ("torchrun --nproc_per_node=1 open_instruct/grpo_fast.py --num_learners_per_node 4 --vllm_num_engines 2", "open-instruct", 6),
        ("python mason.py --cluster a --num_nodes 2 -- python open_instruct/grpo_fast.py --num_learners_per_node 4", "open-instruct", 5),
        ("python3 train.py rollout.backend=sglang:d4 actor.backend=fsdp:d4 scheduler.type=ray", "AReaL", 8),
    ],
)
def test_a_program_of_any_name_is_read_by_its_keys_or_flags(command: str, framework: str, number: int):
    for budget in (budget_of(f"ray job submit --entrypoint-num-gpus=1 -- {command}"), budget_of(command, job={"GPU": 1})):
        assert (budget.framework, gpus(budget)) == (framework, number + 1)


def test_a_program_that_is_not_known_is_named():
    assert budget_of("python prepare.py; python -m my.train --x 1").unread == (
        "no training command that cockpit knows was found (it runs prepare.py, my.train)",
    )


def test_placeholders_are_named():
    files = f"{PYTHON} --ckpt.path path/to/save --data.prompt_dataset '<your_path>' --logger.wandb.key YOUR_KEY --x /data/yours"
    (line,) = budget_of(files).lines
    assert line.text == "placeholders are still in the command: path/to/save, <your_path>, YOUR_KEY"


def test_a_plain_job_whose_script_cannot_be_read_is_counted_with_a_doubt():
    budget = budget_of("bash prepare.sh", job={"GPU": 1})
    assert (gpus(budget), budget.mark) == (1, "likely")
    assert budget_of("python prepare.py", job={"GPU": 1}).mark == "firm"


def test_a_missing_count_is_named_with_its_variable_and_its_line():
    script = "#!/bin/bash\nNODES=$N_NODES\n\npython -m verl.trainer.main_ppo \\\n  trainer.nnodes=$NODES trainer.n_gpus_per_node=8\n"
    budget = budget_of("bash run.sh", read={"run.sh": script}.get)
    assert budget.unread == ("trainer.nnodes is $NODES (run.sh, line 5), which nothing sets: N_NODES=8 cockpit check …",)
    assert gpus(budget_of("bash run.sh", read={"run.sh": script}.get, env={"N_NODES": "2"})) == 16
    first = budget_of("bash run.sh", read={"run.sh": script.replace("$N_NODES", "$1")}.get)
    assert first.unread[0].endswith("from argument 1 of the script, which is not given") or gpus(first) is None
    counted = budget_of("bash run.sh", read={"run.sh": script.replace("$N_NODES", "$(wc -l < hosts)")}.get)
    assert "run.sh, line 2 sets in a way that cockpit does not follow" in counted.unread[0]


@pytest.mark.parametrize("number", ["9" * 5000, "²", "٣", "inf", "nan"])
def test_a_number_that_is_none_or_has_no_end_breaks_nothing(number: str):
    words = (f"shift {number}", f"echo ${{{number}}}", f'[ -n "${{{number}+x}}" ] && true')
    for text in words:
        assert gpus(budget_of(f"{text}\n{PYTHON}")) == 4
    assert gpus(budget_of(f"torchrun --nproc_per_node={number} -m {MODULE} {FLAGS}")) == 4
    submitted = budget_of(f"ray job submit --entrypoint-num-gpus {number} -- {PYTHON}")
    assert gpus(submitted) in (None, 7), "Python reads Arabic digits too"


_PIECES = st.sampled_from(
    ["ray job submit", "--", "python -m", MODULE, "verl.trainer.main_ppo", FLAGS, "--entrypoint-num-gpus", "8", "'", '"', "$X", "$(nproc)",
     ";", "&&", "\n", "--runtime-env-json", '{"pip": 3}', "'{\"env_vars\": []}'", "trainer.nnodes=2", "\0", "if", "then", "fi", "<<E", "\\"]
)  # fmt: skip


@settings(max_examples=60)
@given(st.lists(_PIECES, max_size=12))
def test_no_entrypoint_trips_it(pieces: list[str]):
    budget = budget_of(" ".join(pieces), job={"CPU": 1} if len(pieces) % 2 else None)
    assert budget.gpus is not None or budget.unread
