"""Commands of a script that end what others run."""

from __future__ import annotations

import pytest

from cockpit.budget import budget_of

TRAIN = "python -m openrlhf.cli.train_ppo_ray --pretrain m --reward_pretrain r --actor_num_nodes 1 --actor_num_gpus_per_node 4"


def told(script: str) -> list[str]:
    """What is said of commands that end processes."""
    return [line.text for line in budget_of(script).lines if " kills every " in line.text or " stops every " in line.text]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("pkill -9 python", "`pkill … python`"),
        ("pkill -9 -f 'ray::.*'", "`pkill … ray::.*`"),
        ("sudo pkill -9 sglang", "`pkill … sglang`"),
        ("/usr/bin/killall -9 python3.10", "`killall … python3.10`"),
        ("killall -q raylet gcs_server", "`killall … raylet`"),
        ("ssh w1 pkill -9 python", "`pkill … python`"),
        ("bash -c 'pkill -9 vllm'", "`pkill … vllm`"),
        ("for h in a b; do ssh $h killall python; done", "`killall … python`"),
        ("ray stop --force", "`ray stop`"),
        ("ssh w1 ray stop", "`ray stop`"),
    ],
)
def test_what_ends_processes_of_others_is_told_once(command, said):
    (text,) = told(f"{command}\n{TRAIN}")
    assert text.startswith(said)
    assert told(command) == [text], "also where nothing else is understood"


@pytest.mark.parametrize(
    "command",
    [
        "pkill -f my_train_script",
        "pkill -P $$ python",
        "pkill -9 -g 77 python",
        "pkill --parent 12 python",
        "pkill -u ray -f my_script",
        "echo pkill -9 python",
        "grep -c 'ray stop' run.sh",
        "# pkill -9 python",
        "ray status",
        "kill %1",
        "killall tensorboard",
        "ssh w1 'pkill python; sleep 1'",
    ],
)
def test_what_ends_only_its_own_or_nothing_is_not_told(command):
    assert told(f"{command}\n{TRAIN}") == []


def test_a_script_that_starts_its_own_ray_may_stop_it():
    assert told(f"ray stop\nray start --head\n{TRAIN}\nray stop") == []
    assert told(f"ray stop; pkill -9 python; ray start --head\n{TRAIN}") != []
