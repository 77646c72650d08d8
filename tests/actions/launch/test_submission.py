"""A submission contains the preset's job, hides its secrets, and names the preset that it came from."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from cockpit.actions.launch.submission import (
    content_of,
    name_for,
    order_of,
    pack_working_dir,
    preset_of_job,
    secret_hider,
    submission_of,
    template_of,
)
from cockpit.config.document import InputError
from cockpit.model import Job
from cockpit.presets import JobSpec, Preset, read_preset

NOON = 1_795_262_400.0 + 12 * 60 + 34
"""2026-11-21 12:12:34 UTC."""


def written(tmp_path: Path, text: str, name: str = "ppo") -> Preset:
    path = tmp_path / f"{name}.yaml"
    path.write_text(text)
    return read_preset(path)


def test_an_id_contains_the_minute_and_a_number_if_it_is_taken():
    assert name_for("ppo-{time}", NOON, ()) == "ppo-20261121-1212"
    assert name_for("ppo-{time}", NOON, {"ppo-20261121-1212", "other"}) == "ppo-20261121-1212-2"
    assert name_for("ppo", NOON, {"ppo", "ppo-2"}) == "ppo-3"


@pytest.mark.parametrize(
    ("name", "line", "template"),
    [
        ("ppo 7b", "", "ppo-7b-{time}"),
        ("ppo", "submission_id: 'x-{name}-{time}'", "x-ppo-{time}"),
        ("ppo", "submission_id: fixed", "fixed"),
        ("Größe", "", "Gr-e-{time}"),
    ],
)
def test_a_template_is_the_presets_own_or_its_name_and_the_time(tmp_path, name, line, template):
    assert template_of(written(tmp_path, f"job:\n  entrypoint: python a.py\n  {line}\n", name)) == template


def test_an_id_that_ray_cannot_find_again_is_refused(tmp_path):
    with pytest.raises(InputError, match="can't be an id"):
        template_of(written(tmp_path, "job: {entrypoint: python a.py}", "x" * 120))


def content(preset: Preset) -> str:
    return content_of(order_of(preset, {}).shown, None)


def test_the_hash_is_equal_for_the_same_job_and_independent_of_its_secrets(tmp_path):
    text = "job: {{entrypoint: python a.py, env: {{MODE: {mode}, WANDB_API_KEY: {key}}}}}"
    one = content(written(tmp_path, text.format(mode="fast", key="abcdefabcdef1")))
    assert content(written(tmp_path, text.format(mode="fast", key="abcdefabcdef2"))) == one
    assert content(written(tmp_path, text.format(mode="slow", key="abcdefabcdef1"))) != one


def test_a_secret_is_hidden_in_every_spelling():
    hide = secret_hider(['pa"ss\\word', "line one\nline two", "abc"])
    assert hide('pa"ss\\word') == "•••"
    assert hide('{"env": "pa\\"ss\\\\word"}') == '{"env": "•••"}'
    assert hide(repr({"env": 'pa"ss\\word'})) == "{'env': '•••'}"
    assert hide("it says line two") == "it says •••"
    assert hide("abc") == "abc"
    assert secret_hider([])("anything") == "anything"


def launched_from(path: object, host: str = socket.gethostname(), name: str = "ppo") -> Job:
    return Job("j1", preset=name, metadata={"cockpit_file": f"{host}:{path}"})


def test_a_job_finds_the_file_that_it_was_launched_from_or_its_preset_by_name(tmp_path, monkeypatch):
    preset = written(tmp_path, "job: {entrypoint: python a.py}")
    assert preset_of_job(launched_from(preset.path)) == preset
    preset.path.unlink()
    assert "Job j1 was launched from the preset ppo: no preset is named ppo" in str(preset_of_job(launched_from(preset.path)))
    assert "no preset is named" in str(preset_of_job(launched_from(preset.path, "elsewhere")))
    assert "no preset is named" in str(preset_of_job(launched_from(f"/{'a' * 300}/ppo.yaml", name="b" * 300)))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "cockpit" / "presets"
    folder.mkdir(parents=True)
    preset = written(folder, "job: {entrypoint: python a.py}")
    assert preset_of_job(Job("j1", preset="ppo")) == preset


@pytest.mark.parametrize("name", ["~nobody-of-that-name/x", "/etc/passwd", "../ppo.yaml", "ppo.yaml"])
def test_a_path_in_a_jobs_metadata_is_not_read(name):
    assert "not the name of a preset" in str(preset_of_job(Job("j1", preset=name)))


def test_another_users_file_is_not_launched_because_a_job_names_it(tmp_path, monkeypatch):
    preset = written(tmp_path, "job: {entrypoint: python a.py}")
    if os.geteuid() == 0:
        os.chown(preset.path, 12345, -1)
    else:
        monkeypatch.setattr("os.geteuid", lambda: 12345)
    assert "belongs to another user" in str(preset_of_job(launched_from(preset.path)))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a link of another user's")
def test_a_file_of_ours_is_not_launched_because_a_job_names_another_users_link_to_it(tmp_path):
    preset = written(tmp_path, "job: {entrypoint: python a.py}")
    link = tmp_path / "link.yaml"
    link.symlink_to(preset.path)
    os.chown(link, 12345, -1, follow_symlinks=False)
    assert "belongs to another user" in str(preset_of_job(launched_from(link)))


def test_the_plan_names_each_file_whose_content_is_sent(tmp_path):
    (tmp_path / "needs.txt").write_text("torch")
    order = order_of(written(tmp_path, "job: {entrypoint: x, runtime_env: {pip: needs.txt}}"), {})
    assert f"runtime_env.pip is read from {tmp_path}/needs.txt" in order.notes


def test_a_conda_file_that_is_no_yaml_is_an_error(tmp_path):
    (tmp_path / "env.yaml").write_text("[")
    preset = written(tmp_path, "job: {entrypoint: x, runtime_env: {conda: env.yaml}}")
    assert preset.job is not None
    with pytest.raises(InputError, match=r"env\.yaml:1: not YAML"):
        submission_of(preset, preset.job, None)


async def test_an_inaccessible_folder_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        await pack_working_dir(JobSpec("x", working_dir=str(tmp_path / ("a" * 300))), lambda *_: None)
