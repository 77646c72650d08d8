"""`check` warns about checkpoints in Ray's copy of the working_dir."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.budget import budget_of
from cockpit.check.paths import path_lines
from cockpit.presets import JobSpec, Preset

OPENRLHF = "python -m openrlhf.cli.train_ppo_ray --pretrain m --reward_pretrain r"
VERL = "python -m verl.trainer.main_ppo trainer.nnodes=1 trainer.n_gpus_per_node=8"


def told(entrypoint: str, working_dir: str | None = ".") -> list[str]:
    preset = Preset("p", Path("/p.yaml"), job=JobSpec(entrypoint, working_dir=working_dir))
    return [line.text for line in path_lines(preset, budget_of(entrypoint))]


@pytest.mark.parametrize(
    ("entrypoint", "said"),
    [
        (f"{OPENRLHF} --save_path ./ckpt/llama", "--save_path is ./ckpt/llama, "),
        (f"{OPENRLHF} --ckpt_path checkpoints", "--ckpt_path is checkpoints, "),
        (f"{VERL} trainer.default_local_dir=checkpoints/x", "trainer.default_local_dir is checkpoints/x, "),
    ],
)
def test_a_relative_path_ends_in_rays_temp_dir(entrypoint, said):
    (text,) = told(entrypoint)
    assert text == f"{said}below the copy of working_dir in Ray's temp dir: checkpoints go to the node's own disk there"
    assert told(entrypoint, None) == [], "then it runs where Ray was started"


@pytest.mark.parametrize("path", ["/data/ckpt", "s3://bucket/ckpt", "~/ckpt", "$WHERE", "$PWD/ckpt", "${HOME}/ckpt"])
def test_a_path_that_is_absolute_or_not_known_is_not_told(path):
    assert told(f"{OPENRLHF} --save_path {path}") == []
    assert told(f"{VERL} trainer.default_local_dir={path}") == []


def test_what_the_command_does_not_say_is_not_told():
    assert told(OPENRLHF) == told(VERL) == []
