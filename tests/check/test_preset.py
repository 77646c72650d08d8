"""The needs of a preset's command are read, with the files that it names."""

from __future__ import annotations

import pytest

from cockpit.check import preset
from cockpit.check.preset import Files, budget_for, fill_entrypoint, hosts_of
from cockpit.presets import JobSpec, Preset, RayNode, RayStart
from cockpit.secrets import HIDDEN

SECRET = "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567"


def job(**more):
    return JobSpec(**{"entrypoint": "bash train.sh", "working_dir": ".", **more})


@pytest.fixture
def read(tmp_path):
    """Reads as the job in this folder would."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.sh").write_text("one\ntwo\n")
    (tmp_path / "outside.sh").write_text("three\n")
    (tmp_path / "code" / "weights.bin").write_bytes(b"\0\1")
    (tmp_path / "code" / "large.sh").write_bytes(b"x" * (preset.MAX_SCRIPT_BYTES + 1))
    return Files(tmp_path / "code")


def test_a_script_in_the_working_dir_or_at_an_absolute_path_is_read(read, tmp_path):
    assert read.read("./train.sh") == "one\ntwo\n"
    assert read.found == {"./train.sh": 2}
    assert read.read(str(tmp_path / "outside.sh")) == "three\n"
    assert read.read("/dev/zero") is None


def test_secrets_of_a_script_are_hidden_before_it_is_read(read, tmp_path):
    (tmp_path / "code" / "train.sh").write_text(f"export HF_TOKEN={SECRET}\nN=8\n")
    assert read.read("train.sh") == f"export HF_TOKEN={HIDDEN}\nN=8\n"


def test_a_hidden_secret_leaves_shell_code(read, tmp_path):
    value = "${SERP_API_KEY:-$(vault read serp --key api)}"
    (tmp_path / "code" / "keys.sh").write_text(f"export SERP_API_KEY={value}\nN=8\n")
    assert read.read("keys.sh") == f"export SERP_API_KEY={HIDDEN}\nN=8\n"


@pytest.mark.parametrize("name", ["../outside.sh", "nothing.sh", "weights.bin", "large.sh", ".", "../code/../outside.sh", "a\0b"])
def test_what_is_not_packed_or_is_no_script_is_not_read(read, name):
    assert read.read(name) is None
    assert read.found == {}


@pytest.mark.parametrize(
    "name", ["/proc/self/status", "/proc/kmsg", "/sys/kernel/profiling", "link.sh", "/proc/self/root/proc/self/status"]
)
def test_a_file_whose_reading_may_wait_or_has_an_effect_is_not_read(read, tmp_path, name):
    (tmp_path / "link.sh").symlink_to("/proc/self/status")
    assert read.read(name) is None


@pytest.mark.parametrize("folder", [None, "s3://bucket/code.zip", "~nobody-of-that-name/code"])
def test_without_a_folder_that_is_packed_from_here_no_relative_path_is_read(tmp_path, folder):
    (tmp_path / "train.sh").write_text("python -m openrlhf.cli.train_ppo_ray\n")
    budget = budget_for(Preset("ppo", tmp_path / "ppo.yaml", job=job(working_dir=folder)), {})
    assert not [line for line in budget.lines if "read for this" in line.text]


def test_where_the_folder_is_gone_that_we_are_in_nothing_is_read_and_nothing_breaks(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    budget = budget_for(Preset("ppo", tmp_path / "cockpit" / "presets" / "ppo.yaml", job=job()), {})
    assert not budget.lines


def test_the_nearest_file_of_a_name_is_found_in_the_folder_and_below_it(read, tmp_path):
    for folder in ("fork/openrlhf", "a/b/c/d/openrlhf", ".git/openrlhf"):
        (tmp_path / "code" / folder).mkdir(parents=True)
        (tmp_path / "code" / folder / "cli.py").write_text("x\n")
    (tmp_path / "code" / "link").symlink_to(tmp_path)
    assert read.find("openrlhf/cli.py") == "fork/openrlhf/cli.py"
    assert read.find("train.sh") == "train.sh"
    for name in ("outside.sh", "openrlhf/none.py", "../outside.sh", str(tmp_path / "outside.sh"), "a\0b"):
        assert read.find(name) is None
    assert Files(None).find("train.sh") is None


def test_variables_are_filled_in_as_at_launch_and_secrets_as_dots():
    given = job(entrypoint="run ${MODEL} $${HOME} ${LATER}", env={"A": "x${MODEL}", "B": "${LATER}", "C": "1${EMPTY}"})
    entrypoint, known = fill_entrypoint(given, {"MODEL": "7b", "EMPTY": ""})
    assert entrypoint == "run 7b ${HOME} ${LATER}"
    assert known == {"LATER": None, "A": "x7b", "B": None, "C": "1"}
    given = job(entrypoint="run --key ${WANDB_API_KEY}", env={"HF_TOKEN": "${HF_TOKEN}", "MY_PASSWORD": "plain-secret"})
    entrypoint, known = fill_entrypoint(given, {"HF_TOKEN": "hf-very-secret"})
    assert entrypoint == "run --key •••"
    assert known == {"HF_TOKEN": "•••", "MY_PASSWORD": "•••"}


@pytest.mark.parametrize("count", [SECRET, f"$NOTHING/{SECRET}", "$(cat secret)"])
def test_what_is_said_of_a_command_shows_no_secret_of_it_or_its_files(tmp_path, count):
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    (tmp_path / "train.sh").write_text(f"python3 {SECRET}.py\npython3 -m openrlhf.cli.train_ppo_ray --actor.num_nodes {count}\n")
    for command in ("bash train.sh", f"python3 {SECRET}.py"):
        budget = budget_for(Preset("ppo", tmp_path / "ppo.yaml", job=job(entrypoint=command, working_dir=".")), {})
        assert budget.unread
        assert SECRET not in str(budget)


def test_a_preset_without_a_job_asks_for_nothing(tmp_path):
    ray = RayStart(RayNode("head"), (RayNode("w1", "10.0.0.2"),))
    bare = Preset("up", tmp_path / "up.yaml", ray=ray)
    assert budget_for(bare, {}).amount("GPU") == 0
    assert [(entry.name, entry.target) for entry in hosts_of(bare)] == [("head", "head"), ("w1", "10.0.0.2")]


def test_which_files_were_read_is_a_line_of_the_budget(tmp_path):
    (tmp_path / "train.sh").write_text("python -m openrlhf.cli.train_ppo_ray --actor.num_gpus_per_node 4\n")
    told = budget_for(Preset("ppo", tmp_path / "ppo.yaml", job=job(working_dir="${HERE}")), {"HERE": "."})
    assert told.lines[0].text == "files read on this host: train.sh (1 line)"
