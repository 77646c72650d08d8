"""A job that Ray knows is saved as a preset that can be read and launched."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.config.document import InputError
from cockpit.model import Actor, Job, Snapshot
from cockpit.presets import Preset, doubts, fill_preset, read_preset
from cockpit.presets.save import preset_of
from cockpit.secrets import HIDDEN, redact, redact_within

KEY = "c0ffee4dead9beef"


def supervisor(submission: str = "ppo-1", **needs: float) -> Actor:
    return Actor("a", class_="JobSupervisor", name=f"_ray_internal_job_actor_{submission}", internal=True, needs=needs)


def saved(tmp_path: Path, text: str) -> Preset:
    path = tmp_path / "saved.yaml"
    path.write_text(text)
    return read_preset(path)


def as_known(entrypoint: str, runtime_env: dict[str, object] | None = None, **more: str) -> Job:
    """As a source hands it to the model."""
    return Job("ppo-1", submission="ppo-1", entrypoint=redact(entrypoint), runtime_env=redact_within(runtime_env), metadata=more or None)


def test_a_job_becomes_a_preset_that_can_be_launched_again(tmp_path):
    entrypoint = f"python3 -m openrlhf.cli.train_ppo_ray {'--actor.num_nodes 1 ' * 6}--x ${{HOME}}/y --data.prompt 'a  b'"
    env = {"env_vars": {"VLLM_USE_V1": "1", "PATH": "${PATH}:/x"}, "pip": ["wandb"], "conda": None, "_ray_commit": "abc"}
    known = as_known(entrypoint, env, owner="alice", job_submission_id="ppo-1", cockpit_preset="x")
    preset = saved(tmp_path, preset_of(known, Snapshot(actors=(supervisor("ppo-2", GPU=4), supervisor(GPU=1, CPU=0, disk=2)))))
    job = fill_preset(preset, {}).preset.job
    assert job is not None
    assert job.entrypoint == entrypoint
    assert job.env == env["env_vars"]
    assert job.runtime_env == {"pip": ["wandb"]}
    assert (job.entrypoint_num_gpus, job.entrypoint_num_cpus, job.entrypoint_resources) == (1.0, None, {"disk": 2.0})
    assert job.metadata == {"owner": "alice"}
    assert preset.about == "saved from job ppo-1"


def test_secrets_are_left_out_and_what_must_be_set_is_said(tmp_path):
    entrypoint = f"python x.py --wandb_token {KEY} --rm http://me:{KEY}@h/x --key $HF_TOKEN"
    env = {"env_vars": {"HF_TOKEN": KEY, "DB": f"postgres://me:{KEY}@db/x"}, "pip": [f"git+https://me:{KEY}@host/x"]}
    text = preset_of(as_known(entrypoint, env, token=HIDDEN, owner="alice"))
    assert KEY not in text
    assert HIDDEN not in text
    head = text.partition("job:")[0]
    assert "#   SECRET_1: in the entrypoint, after --wandb_token\n" in head
    assert "#   HF_TOKEN: a variable of the job\n" in head
    preset = saved(tmp_path, text)
    assert not [one for one in doubts(preset) if "plain text" in one]
    names = {"HF_TOKEN": "t", **{f"SECRET_{number}": f"s{number}" for number in (1, 2, 3, 4)}}
    job = fill_preset(preset, names).preset.job
    assert job is not None
    assert job.entrypoint == "python x.py --wandb_token s1 --rm http://s2@h/x --key $HF_TOKEN"
    assert job.env == {"HF_TOKEN": "t", "DB": "postgres://s3@db/x"}
    assert job.runtime_env == {"pip": ["git+https://s4@host/x"]}
    assert job.metadata == {"owner": "alice"}


def test_a_folder_that_was_uploaded_is_said_not_to_be_known(tmp_path):
    text = preset_of(as_known("python x.py", {"working_dir": "gcs://_ray_pkg_ab.zip", "py_modules": ["gcs://_ray_pkg_cd.zip"]}))
    assert "# Its working_dir was uploaded as gcs://_ray_pkg_ab.zip; Ray does not report from which folder.\n" in text
    assert "# py_modules was uploaded to Ray; Ray does not report from which folders\n" in text
    job = saved(tmp_path, text).job
    assert job is not None
    assert (job.working_dir, job.runtime_env) == (None, {})
    kept = saved(tmp_path, preset_of(as_known("x", {"working_dir": "s3://bucket/x.zip"}))).job
    assert kept is not None
    assert kept.working_dir == "s3://bucket/x.zip"


def test_what_is_not_known_of_the_entrypoint_is_said_and_without_one_no_preset_is_made():
    assert "# Ray does not report what the command itself reserved" in preset_of(as_known("x"))
    assert "Ray does not report" in preset_of(as_known("x"), Snapshot(actors=(supervisor("ppo-2"),)))
    assert "Ray doesn't tell" not in preset_of(as_known("x"), Snapshot(actors=(supervisor(),)))
    with pytest.raises(InputError, match="Ray does not report the entrypoint of 03000000"):
        preset_of(Job("03000000"))


WORDS = st.lists(
    st.sampled_from(["--a.b", "x=1", "'a  b'", "${X}", "$${X}", "\\\n", "\n", "  ", "#", ": ", "- ", "é", "\t", "\x07", "%", '"'])
)


@given(WORDS.map(" ".join) | st.text(), st.integers(0, 40))
def test_a_command_is_launched_again_as_it_was(tmp_path_factory, command, length):
    command = (command + " --flag value" * length).strip()
    if not command or redact(command) != command:
        return
    job = fill_preset(saved(tmp_path_factory.getbasetemp(), preset_of(as_known(command), Snapshot(actors=(supervisor(),)))), {}).preset.job
    assert job is not None
    assert job.entrypoint == command
