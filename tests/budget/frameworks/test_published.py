"""Small scripts with the structure of published ones, forks' included: the number is right, or missing with its reason."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cockpit.budget import Budget, budget_of

MAIN = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo"
COUNTS = "trainer.nnodes=$NNODES trainer.n_gpus_per_node=$N_GPUS"
POOL = "import hydra\nspec = {'global_pool': [config.trainer.n_gpus_per_node] * config.trainer.nnodes}\n"
SPREAD = 'schedule = placement_group(bundles, strategy="STRICT_SPREAD")'
OLD = (
    "--pretrain m --remote_rm_url http://h --colocate_actor_ref --advantage_estimator group_norm --use_length_reward --group_method normal"
)
MODELS = '  "${MODEL_ARGS[@]}" ${PERF_ARGS[@]}'

ARGUMENTS = f"""
NNODES=1
N_GPUS=4
while [[ $# -gt 0 ]]; do
    case "$1" in
        --nnodes) NNODES="$2"; shift 2;;
        --n_gpus_per_node) N_GPUS="$2"; shift 2;;
        *) echo "unknown argument '$1'" >&2; exit 1;;
    esac
done
if [ ! -d "$SAVE_PATH" ]; then mkdir -p $SAVE_PATH; fi
{MAIN} {COUNTS} trainer.default_local_dir=$SAVE_PATH | tee $SAVE_PATH/run.log
"""
SLURM = """#!/bin/bash
#SBATCH --nodes=32
#SBATCH --gres=gpu:8
nodes=( $(scontrol show hostnames "$SLURM_JOB_NODELIST") )
declare -A pids
export worker_num=$SLURM_NNODES
for ((i = 1; i < worker_num; i++)); do srun -w "${nodes[$i]}" ray start --block & done
python3 -m recipe.dapo.main_dapo --config-path=config trainer.nnodes=$worker_num trainer.n_gpus_per_node=8 trainer.new_key=3
"""
GUARDED = f"""set -ex
export WORLD_SIZE=${{WORLD_SIZE:-1}}
MODEL_PATH=${{MODEL_PATH:-}}
if [ -z "$MODEL_PATH" ]; then
    echo "MODEL_PATH is not set"
    exit 1
fi
NAME=$(basename $MODEL_PATH)-${{WORLD_SIZE}}nodes
{MAIN} trainer.nnodes=$WORLD_SIZE trainer.n_gpus_per_node=8 trainer.experiment_name=$NAME
"""
SPLIT_WORD = f"""MODEL="YOUR MODEL_PATH"
{MAIN} actor_rollout_ref.model.path=$MODEL trainer.nnodes=1 trainer.n_gpus_per_node=8
"""
FUNCTION = """
NAME=run
make_suffix() {
  local suffix=""
  while [[ "$#" -gt 0 ]]; do case $1 in --lr) suffix+="_lr$2"; shift 2 ;; *) shift ;; esac; done
  echo "$suffix"
}
NAME="$NAME$(make_suffix "$@")"
ray job submit --entrypoint-num-cpus=1 -- python -m main_ppo trainer.experiment_name=$NAME trainer.nnodes=1 trainer.n_gpus_per_node=8
"""
SEVERAL = "\n".join(f"{MAIN} trainer.experiment_name={stage} trainer.nnodes=1 trainer.n_gpus_per_node=8" for stage in (1, 2, 3))
ASYNCHRONOUS = """python -m examples.countdown.train rllm/backend=verl actor_rollout_ref.rollout.tensor_model_parallel_size=1 \\
  rllm.async_training.enable=true trainer.nnodes=1 trainer.n_gpus_per_node=4 rollout.nnodes=1 rollout.n_gpus_per_node=4
"""
RANKS = """set -euxo pipefail
NODE_RANK=${MLP_WORKER_RACK_RANK_INDEX:-${RANK:-0}}
if [ "$NODE_RANK" -eq 0 ]; then
    ray start --head --block &
    sleep 60
    ray job submit --runtime-env-json="{\\"working_dir\\": \\"${WORKING_DIR}\\"}" -- python3 -m openrlhf.cli.train_ppo_ray \\
        --actor_num_nodes 2 --ref_num_nodes 2 --critic_num_nodes 2 --vllm_num_engines 32 --colocate_actor_ref --pretrain /x/here\\
        --remote_rm_url rule_a,rule_b --rule_min -10 --answer_key answer --gamma 1,0.99
else
    ray start --address "$MASTER_ADDR:6379" --block
fi
"""
DATACLASS = """import os
DEBUG_MODE = False if os.environ.get("DEBUG_MODE", "False") == "False" else True
@dataclass
class Config(Base):
    total_num_nodes: int = 32 if not DEBUG_MODE else 8
    ref_num_nodes: int = total_num_nodes
    ref_num_gpus_per_node: int = 1
    actor_num_nodes: int = total_num_nodes
    actor_num_gpus_per_node: int = 1
    colocate_all: bool = True
    vllm_num_engines: int = total_num_nodes
"""
REMOTE = """pkill -9 sglang || true
ray stop --force || true
SCRIPT_DIR="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" &>/dev/null && pwd)"
SLIME_DIR="$(cd -- "${SCRIPT_DIR}/../slime" &>/dev/null && pwd)"
exec > >(tee -a log) 2>&1
source "${SLIME_DIR}/models.sh"
NUM_NODES=${NUM_NODES:-4}
ACTOR=${ACTOR:-4}
TOTAL=${TOTAL:-$((NUM_NODES * 4))}
if (( ACTOR + 4 > 8 )); then echo too many; exit 1; fi
ROLE=${MLP_ROLE_INDEX:-0}
for i in {1..60}; do if curl -fsS "$URL" >/dev/null; then break; fi; sleep 2; done
IFS=',' read -r -a urls <<< "$URLS"
PERF_ARGS=(
  --tensor-model-parallel-size 4   # of training
  --use-dynamic-batch-size
)
if [[ ${ROLE} -eq 0 ]]; then
  ray job submit --runtime-env-json="{\\"env_vars\\": {\\"A\\": \\"${SCRIPT_DIR}\\"}}" -- python3 -u "${SLIME_DIR}/train_async.py" \\
    --actor-num-nodes "${NUM_NODES}" --actor-num-gpus-per-node "${ACTOR}" --rollout-num-gpus "${TOTAL}" ${MODEL_ARGS[@]} ${PERF_ARGS[@]}
  STATUS=$(ray job status x 2>&1)
  if [[ "${STATUS}" == *"SUCCEEDED"* ]]; then exit 0; fi
  exit 1
else
  while ray status >/dev/null 2>&1; do sleep 60; done
fi
"""
COLOCATED = f"""source "/home/user/slime/scripts/models/a.sh"
PERF_ARGS=(--use-dynamic-batch-size $(seq 16 8 256))
ray start --head --num-gpus 8
ray job submit -- python3 train.py --actor-num-nodes 1 --actor-num-gpus-per-node 8 --colocate \\
{MODELS}
"""
READ_LINE = """MODEL_ARGS_LINE="$(python3 "model_args.py" "a")" || exit 1
read -ra MODEL_ARGS <<< "${MODEL_ARGS_LINE}"
ray job submit -- python3 train.py --actor-num-nodes 1 --actor-num-gpus-per-node 2 --rollout-num-gpus 4 ${MODEL_ARGS[@]} --use-opd
"""
SKYRL = """: "${STEPS:=8}"
NODES=1
ENGINES=4
uv run --isolated --extra fsdp -m examples.dapo.main_fully_async trainer.fully_async.enabled=true data.train_data="['$HOME/a.parquet']" \\
  trainer.algorithm.use_kl_loss=false trainer.placement.colocate_all=%s trainer.placement.policy_num_nodes=$NODES \\
  trainer.placement.policy_num_gpus_per_node=4 generator.inference_engine.num_engines=$ENGINES \\
  generator.inference_engine.tensor_parallel_size=1 trainer.policy.model.path="m" $@
"""
COMMON = """set -eou pipefail
SCRIPT_DIR=$( cd -- "$( dirname -- "${BASH_SOURCE[0]}" )" &> /dev/null && pwd)
PROJECT_ROOT=$(realpath $SCRIPT_DIR/../..)
exit_if_max_steps_reached() {
  STEPS=$(jq 'keys | max' $METRICS || echo 0)
  if [[ $STEPS -ge $MAX_STEPS ]]; then exit 0; fi
}
EXP_NAME=${EXP_NAME:-$(basename $0 .sh)}
CONFIG_PATH=$(echo $SCRIPT_DIR/${EXP_NAME}.yaml | sed 's#tests/suites#examples/recipes#')
if [[ ! -f $CONFIG_PATH ]]; then echo "[ERROR] not found"; exit 1; fi
"""
SUITE = """SCRIPT_DIR=$( cd -- "$( dirname -- "${BASH_SOURCE[0]}" )" &> /dev/null && pwd)
source $SCRIPT_DIR/common.env
MAX_STEPS=5
exit_if_max_steps_reached
cd $PROJECT_ROOT
uv run examples/run_grpo.py \\
    --config $CONFIG_PATH \\
    grpo.max_num_steps=$MAX_STEPS $@ 2>&1 | tee $RUN_LOG
if [[ $(jq 'keys' $METRICS) -ge $MAX_STEPS ]]; then uv run tests/check_metrics.py $METRICS 'mean(data["x"]) < 1'; fi
"""
NEMO = {
    "tests/suites/common.env": COMMON,
    "tests/suites/grpo-6n8g.sh": SUITE,
    "examples/run_grpo.py": "from nemo_rl.algorithms.grpo import setup\n",
    "examples/recipes/grpo-6n8g.yaml": "defaults: ../base.yaml\ncluster: {num_nodes: 1}\nenv: {nemo_gym: {num_gpu_nodes: 5}}\n",
    "examples/base.yaml": "cluster: {num_nodes: 4, gpus_per_node: 8}\npolicy: {generation: {colocated: {enabled: true}}}\n",
}
ROLL = "CONFIG_PATH=$(basename $(dirname $0))\npython examples/start_agentic_pipeline.py --config_path $CONFIG_PATH  --config_name demo\n"
AREAL = """
rollout: {backend: 'sglang:d4p1t1', scheduling_spec: '${actor.scheduling_spec}'}
actor: {backend: 'fsdp:d4p1t1', kl_ctl: 0.0, scheduling_spec: [{task_type: worker, gpu: 1, mem: 32}]}
ref: {backend: '${actor.backend}'}
scheduler: {type: null}
"""
ONE_NODE = f"N_NODE=1\n{MAIN} trainer.nnodes=$N_NODE trainer.n_gpus_per_node=8"
SPREAD_FORK = f"""python3 -m openrlhf.cli.train_ppo_ray {OLD} \\
  --actor_num_gpus_per_node 5 --ref_num_gpus_per_node 5 --vllm_num_engines 1 --vllm_tensor_parallel_size 2
"""
RANK_ARGUMENT = f"""NODE_RANK=$1
pkill -f server
if [ "$NODE_RANK" = "0" ]; then
python3 -m openrlhf.cli.train_ppo_ray {OLD} --actor_num_gpus_per_node 4 --vllm_num_engines 4
fi
"""
BASE = {"train.py": POOL, "config/base.yaml": "defaults: [ppo_trainer]\ntrainer: {n_gpus_per_node: 1}"}
DEMO = {"examples/demo/a.sh": ROLL, "examples/demo/demo.yaml": "actor: {device_mapping: 'list(range(0,1))'}"}
NPU = """python examples/vlm_npu/rl.py --config examples/vlm_npu/g.yaml \\
  scheduler.type=ray rollout.backend=vllm:d32 actor.backend=fsdp:d16
"""
RLINF = """CONFIG_PATH="$( cd "$( dirname "${BASH_SOURCE[0]}" )" && pwd )"
if [ -z "$1" ]; then NAME="a"; else NAME=$1; fi
python $(dirname $CONFIG_PATH)/main/main_grpo.py --config-path ${CONFIG_PATH}/config/  --config-name $NAME
"""


def read(files: Mapping[str, str], command: str) -> Budget:
    def find(name: str) -> str | None:
        return min((path for path in files if path == name or path.endswith(f"/{name}")), key=len, default=None)

    return budget_of(command, read=files.get, find=find)


@pytest.mark.parametrize(
    ("files", "command", "gpus", "mark"),
    [
        ({"train.sh": ARGUMENTS, "src/verl/version/version": "0.2.0.dev"}, "bash train.sh --nnodes 1 --n_gpus_per_node 8", 8, "firm"),
        ({"train.sh": ARGUMENTS}, "bash train.sh", 4, "firm"),
        ({"a.sh": ONE_NODE, "verl/verl/version/version": "0.2.0.dev"}, "bash a.sh", 8, "firm"),
        ({"big.sh": SLURM}, "bash big.sh", 256, "likely"),
        ({"big.sh": SLURM}, "sbatch big.sh", 256, "firm"),
        ({"a.sh": SPLIT_WORD}, "bash a.sh", 8, "likely"),
        ({"a.sh": GUARDED}, "bash a.sh", 8, "likely"),
        ({"a.sh": FUNCTION}, "bash a.sh --lr 3", 8, "likely"),
        ({"a.sh": SEVERAL}, "bash a.sh", 8, "firm"),
        ({"a.sh": ASYNCHRONOUS}, "bash a.sh", 8, "likely"),
        ({"a.sh": "python3 -m examples.env.train trainer.nnodes=1 trainer.n_gpus_per_node=1"}, "bash a.sh", 1, "likely"),
        (BASE, "python train.py --config-name base", 1, "firm"),
        ({"a.sh": SPREAD_FORK, "fork/openrlhf/cli/train_ppo_ray.py": SPREAD, "fork/version.txt": "0.5.5.post2"}, "bash a.sh", 7, "firm"),
        ({"a.sh": RANKS, "code/openrlhf/cli/train_ppo_ray.py": SPREAD, "code/version.txt": "0.5.1"}, "bash a.sh", 64, "firm"),
        ({"a.sh": RANK_ARGUMENT}, "bash a.sh 0", 8, "likely"),
        ({"playground/a.py": DATACLASS}, "python -m playground.a", 32, "likely"),
        ({"playground/a.py": DATACLASS}, "DEBUG_MODE=True python -m playground.a", 8, "likely"),
        ({"a.sh": "python3 -m verl.trainer.main config=c.yaml trainer.n_gpus_per_node=4", "c.yaml": "trainer: {nnodes: 1}"},
         "bash a.sh", 4, "firm"),
        ({"swe/scripts/a.sh": REMOTE, "swe/scripts/../slime/models.sh": ""}, "cd swe && bash scripts/a.sh", 32, "likely"),
        ({"a.sh": COLOCATED}, "bash a.sh", 8, "likely"),
        ({"a.sh": READ_LINE, "miles/ray/placement_group.py": ""}, "bash a.sh", 6, "likely"),
        ({"a.sh": SKYRL % "false"}, "bash a.sh", 8, "firm"),
        ({"a.sh": SKYRL % "true"}, "bash a.sh", 4, "firm"),
        (NEMO, "bash tests/suites/grpo-6n8g.sh", 48, "likely"),
        (DEMO, "bash examples/demo/a.sh", 8, "likely"),
        ({"examples/g.yaml": AREAL}, "python3 examples/rl.py --config examples/g.yaml cluster.n_nodes=2", 8, "likely"),
        ({"a.sh": NPU, "examples/vlm_npu/g.yaml": AREAL}, "bash a.sh", 48, "firm"),
    ],
)  # fmt: skip
def test_a_script_of_this_structure_needs_so_many_gpus(files: Mapping[str, str], command: str, gpus: int, mark: str):
    budget = read(files, command)
    assert (budget.gpus, budget.mark, bool(budget.doubts)) == (gpus, mark, mark == "likely"), (budget.unread, budget.doubts)


@pytest.mark.parametrize(
    ("files", "command", "missing"),
    [
        ({"a.sh": "python3 -m verl.trainer.main config=/home/a/config.yaml trainer.n_gpus_per_node=1"}, "bash a.sh",
         "trainer.nnodes is not set, and the file /home/a/config.yaml that config= names can't be read"),
        ({"ex/math/a.sh": RLINF, "ex/main/main_grpo.py": "import hydra, rlinf", "ex/math/config/b.yaml": "cluster: {num_nodes: 16}"},
         "bash ex/math/a.sh b", "RLinf asks Ray for no GPU: it uses all GPUs of 16 nodes, and Ray shows them as free"),
    ],
)  # fmt: skip
def test_what_a_reader_cannot_tell_either_is_missing_with_its_reason(files: Mapping[str, str], command: str, missing: str):
    assert (read(files, command).gpus, read(files, command).unread) == (None, (missing,))


def test_a_second_pool_of_a_fork_is_a_doubt():
    tree = {
        "verl/trainer/main_ppo.py": f"{POOL}resource_pool_spec = {{}}\nresource_pool_spec['reward'] = [1]\n",
        "verl/version/version": "0.5.0",
    }
    budget = read(tree, f"{MAIN} trainer.nnodes=1 trainer.n_gpus_per_node=8 reward_rollout.if_use_reward_rollout=True")
    assert (budget.gpus, budget.mark, len(budget.doubts)) == (8, "likely", 2)
