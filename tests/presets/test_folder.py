"""Presets are found by name or path, and a new one never replaces a file."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from cockpit.config.document import InputError
from cockpit.presets import Preset, PresetError, copy_preset, find_preset, presets, presets_folder, write_preset
from cockpit.presets.folder import DEMO_FOLDER, READY_MADE, demo_env, is_uri

JOB = "job: {entrypoint: x}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "config" / "cockpit" / "presets"


def ready_made() -> list[str]:
    return sorted(path.stem for path in READY_MADE.glob("*.yaml"))


def test_without_a_folder_there_are_the_ready_made_ones():
    assert ready_made() == ["openrlhf-grpo", "openrlhf-hybrid", "openrlhf-ppo", "verl-grpo", "verl-ppo"]
    assert [one.name for one in presets()] == ready_made()


def test_a_demo_brings_its_own_which_goes_before_those_of_the_user(folder, tmp_path, monkeypatch):
    for place in (tmp_path / "demo", folder):
        place.mkdir(parents=True)
        (place / "demo.yaml").write_text(JOB)
    assert find_preset("demo").path.parent == folder
    monkeypatch.setenv(DEMO_FOLDER, str(tmp_path / "demo"))
    assert find_preset("demo").path.parent == tmp_path / "demo"
    assert [one.path.parent for one in presets() if one.name == "demo"] == [tmp_path / "demo"]
    assert {one.name for one in presets()} == {"demo", *ready_made()}


def test_what_is_saved_in_a_demo_goes_with_the_demo(tmp_path, monkeypatch):
    assert demo_env() == {}
    monkeypatch.setenv(DEMO_FOLDER, str(tmp_path))
    (tmp_path / "demo.yaml").write_text("ray: {head: {host: here}, env: {COCKPIT_DEMO: /tmp/x}}\n")
    assert demo_env() == {"COCKPIT_DEMO": "/tmp/x"}


def test_one_that_can_not_be_read_is_listed_and_hides_no_other(folder):
    folder.mkdir(parents=True)
    (folder / "good.yaml").write_text(JOB)
    (folder / "bad.yml").write_text("job: {}\n")
    (folder / "notes.txt").write_text("x")
    (folder / ".good.yaml.swp").write_text("x")
    (folder / ".hidden.yaml").write_text("x")
    (folder / "gone.yaml").symlink_to("nowhere")
    (folder / "deep.yaml").mkdir()
    found = {one.name: one for one in presets()}
    assert list(found) == ["bad", "deep", "gone", "good", *ready_made()]
    assert isinstance(found["good"], Preset)
    said = {name: str(one) for name, one in found.items() if isinstance(one, PresetError)}
    assert {name: text.removeprefix("~/config/cockpit/presets/") for name, text in said.items()} == {
        "bad": "bad.yml:1: job: entrypoint is missing",
        "deep": "deep.yaml: is a directory",
        "gone": "gone.yaml: no such file",
    }


def test_a_preset_is_found_by_name_or_by_path(folder, tmp_path):
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(JOB)
    (tmp_path / "here.yaml").write_text(JOB)
    assert find_preset("mine").path == folder / "mine.yaml"
    assert find_preset("verl-ppo").path == READY_MADE / "verl-ppo.yaml"
    assert find_preset("./here.yaml").name == find_preset("here.yaml").name == find_preset(str(tmp_path / "here.yaml")).name == "here"
    assert find_preset("~/here.yaml").name == "here"
    (tmp_path / "here.yaml").write_text(f"#!cockpit launch\n{JOB}")
    assert find_preset("./here.yaml").name == "here", "it may begin as a script does"
    assert presets_folder() == folder


def test_one_of_yours_goes_before_a_ready_made_one_of_its_name(folder):
    folder.mkdir(parents=True)
    (folder / "verl-ppo.yaml").write_text(JOB)
    assert find_preset("verl-ppo").path.parent == folder
    assert [one.path.parent for one in presets() if one.name == "verl-ppo"] == [folder]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("verl-pppo", "no preset is named verl-pppo; perhaps verl-ppo"),
        ("qqq", "no preset is named qqq; presets are in ~/config/cockpit/presets"),
        ("here", "no preset is named here; the file here is ./here.yaml"),
        ("./nowhere.yaml", "nowhere.yaml: no such file"),
        ("~nobody-of-that-name/ppo.yaml", "~nobody-of-that-name/ppo.yaml: no such home folder"),
    ],
)
def test_one_that_is_not_there_is_said_with_what_is_near(tmp_path, name, message):
    (tmp_path / "here.yaml").write_text(JOB)
    with pytest.raises(InputError) as caught:
        find_preset(name)
    assert str(caught.value) == message


SBATCH = "#!/bin/bash\n#SBATCH -N 2\nray start --head\n"


@pytest.mark.parametrize("name", ["run.sh", "./run.sh", "run.sbatch"])
def test_a_script_for_sbatch_is_no_preset_and_it_is_said_what_to_do_with_it(tmp_path, name):
    (tmp_path / name).write_text(SBATCH)
    with pytest.raises(InputError) as caught:
        find_preset(name)
    name = name.removeprefix("./")
    assert str(caught.value) == (
        f"{name}: a script for sbatch, not a preset: submit it with `sbatch {name}`, then run cockpit within its job "
        f"or with --slurm JOBID; `cockpit check -- bash {name}` says what it asks for"
    )


def test_another_script_is_no_preset_either(tmp_path):
    (tmp_path / "my run").write_text("#!/usr/bin/env bash\npython train.py  #SBATCH is for others\n")
    with pytest.raises(InputError) as caught:
        find_preset("my run")
    assert str(caught.value) == (
        "my run: a script, not a preset: `cockpit check -- bash 'my run'` says what it asks for, "
        "and a preset with `entrypoint: bash 'my run'` launches it"
    )


MODELINE = "# yaml-language-server: $schema=../schema/preset.json\n"


def test_a_ready_made_one_is_copied_with_its_comments(folder):
    assert copy_preset("verl-ppo") == folder / "verl-ppo.yaml"
    assert (folder / "verl-ppo.yaml").read_text() == f"{MODELINE}{(READY_MADE / 'verl-ppo.yaml').read_text()}"
    with pytest.raises(InputError, match="no ready-made preset is named nope; ready-made: openrlhf-grpo, "):
        copy_preset("nope")
    with pytest.raises(InputError, match="no ready-made preset"):
        copy_preset("../shipped/verl-ppo")


def test_what_is_written_is_its_owners_alone_and_goes_over_no_file(folder):
    path = write_preset(JOB, "new")
    assert path == folder / "new.yaml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(InputError, match=r"^~/config/cockpit/presets/new\.yaml: already exists; not overwritten$"):
        write_preset("other", "new")
    assert path.read_text() == f"{MODELINE}{JOB}"
    assert [one.name for one in folder.iterdir()] == ["new.yaml"]


def test_the_first_line_of_a_preset_leads_to_the_schema_and_a_preset_is_written_also_without_one(folder):
    path = write_preset(JOB, "new")
    schema = (path.parent / MODELINE.strip().rpartition("=")[2]).resolve()
    assert json.loads(schema.read_text())["title"] == "cockpit preset"
    schema.unlink()
    schema.mkdir()
    assert write_preset(JOB, "other").read_text() == f"{MODELINE}{JOB}"


@pytest.mark.parametrize("name", ["", "a/b", "../a", ".hidden", "-x", "a b", "x" * 65, "ü"])
def test_a_name_that_is_no_name_of_a_file_is_refused(folder, name):
    with pytest.raises(InputError, match="can't be the name of a preset"):
        write_preset(JOB, name)
    assert not folder.exists()


def test_a_file_where_the_folder_should_be_is_said_and_not_taken_for_the_preset(folder):
    folder.parent.mkdir(parents=True)
    folder.write_text("a file")
    with pytest.raises(InputError, match=r"new\.yaml: can't create its folder: file exists"):
        write_preset(JOB, "new")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://bucket/a.zip", True),
        ("gcs://_ray_pkg_1.zip", True),
        ("http://[x/a.zip", True),
        (".", False),
        ("/a:b", False),
        ("a//b", False),
    ],
)
def test_what_ray_fetches_itself_is_known(text, expected):
    assert is_uri(text) is expected
