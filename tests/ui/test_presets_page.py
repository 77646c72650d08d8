from __future__ import annotations

import os
import shlex
import stat
import sys
import threading
from contextlib import asynccontextmanager

import pytest

from cockpit.actions.plan import Plan, Target
from cockpit.budget import Budget, Line
from cockpit.check.preset_list import PresetEntry
from cockpit.check.result import judge
from cockpit.config.settings import Config
from cockpit.config.slurm import named_allocation
from cockpit.model import Job
from cockpit.presets import presets_folder
from cockpit.ui.pages.presets import PresetsPage
from cockpit.ui.view import View
from tests.ui.conftest import FakeExecutor
from tests.ui.screen import at, pages_of, press, said, shown, table_of, table_text, until
from tests.world import NOW, snapshot

PRESET = """
about: PPO on a small model
ray:
  head: {host: head, num_gpus: 8}
  workers: [{host: w1, num_gpus: 8}]
job:
  entrypoint: python train.py --wandb_token abcdef0123456789abcdef
  entrypoint_num_gpus: 1
  env: {WANDB_API_KEY: "${WANDB_API_KEY}", HF_TOKEN: hf_abcdefghijklmnopqrst}
"""


def lay(folder, text=PRESET, name="small"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.yaml").write_text(text)


def job(**more):
    facts = {"id": "small-1", "job": "01000000", "submission": "small-1", "status": "FAILED", "entrypoint": "python train.py"}
    return Job(**{**facts, "started": NOW - 600, "ended": NOW - 60, "preset": "small", **more})


@asynccontextmanager
async def presets(make, folder, text=PRESET, name="small", first=None, size=(120, 30), **config):
    """The page of presets with the cursor on this one; a `text` of "" lays no file."""
    if text:
        lay(folder, text, name)
    async with at(make(first or snapshot(), **config), "7", size=size) as (app, pilot):
        await until(pilot, lambda: name in shown(app))
        await pilot.press("/", *name, "enter")
        yield app, pilot


async def test_presets_are_listed_with_what_they_ask_for_and_how_it_went_last(make, folder):
    lay(folder)
    lay(folder, "job: {entrypoin: x}", "broken")
    async with at(make(snapshot(jobs=(job(),))), "7", size=(160, 50), then="small") as (app, pilot):
        assert "FAILED 1m00s" in next(line for line in shown(app).splitlines() if "PPO on a small model" in line)
        assert "invalid" in next(line for line in shown(app).splitlines() if "▸broken" in line)
        await press(pilot, "enter", then="no such key")


async def test_the_row_of_a_preset_that_does_not_fit_says_why_and_one_that_cannot_be_read_too(make, folder):
    lay(folder, PRESET.replace("entrypoint_num_gpus: 1", "entrypoint_num_gpus: 64"))
    lay(folder, "job: {entrypoin: x}", "broken")
    async with at(make(snapshot()), "7", size=(80, 24), then="small") as (app, _):
        entries = {row.name: row for row in table_of(app).blocks[0].rows}
        assert entries["small"].checked.verdict == "never"
        assert entries["small"].checked.reason.text[:20] in shown(app)
        assert entries["broken"].mistake[:20] in shown(app)


ANYWHERE = "ray:\n  head: {port: 6400, num_gpus: 8}\n  workers: {num_gpus: 8}\n  env: {HF_TOKEN: hf_abcdefghijklmnopqrst}\n"


@pytest.mark.parametrize(
    ("config", "hosts", "facts"),
    [
        (
            Config(slurm=named_allocation("42", "gpu[1-3]")),
            "3",
            ("the nodes of Slurm job 42", "gpu1  port=6400 num_gpus=8", "gpu2  num_gpus=8", "gpu3  num_gpus=8"),
        ),
        (
            Config(),
            "–",
            (
                "the nodes of the Slurm job that cockpit runs in, or that --slurm names",
                "the first node  port=6400 num_gpus=8",
                "all other nodes  num_gpus=8",
            ),
        ),
    ],
)
async def test_a_preset_without_hosts_is_shown_on_the_nodes_of_the_slurm_job(make, folder, config, hosts, facts):
    async with presets(make, folder, ANYWHERE, "anywhere", size=(160, 50), slurm=config.slurm) as (app, pilot):
        assert hosts in next(line for line in table_text(app).splitlines() if "▸anywhere" in line).split()
        await press(pilot, "enter", then=lambda: facts[-1] in shown(app))
        assert all(text in shown(app) for text in facts)
        assert "hf_abc" not in shown(app)


async def test_a_folder_whose_disk_does_not_answer_is_named_and_the_screen_lives(make, folder, monkeypatch):
    alive = threading.Event()
    monkeypatch.setattr("cockpit.ui.screens.live.check_presets", lambda *_: alive.wait(20))
    monkeypatch.setattr("cockpit.ui.screens.live.READ_PRESETS_INTERVAL_S", 0.3)
    async with at(make(snapshot()), "7", size=(160, 50)) as (app, pilot):
        await until(pilot, lambda: f"{folder} could not be read within 0.3 s" in said(app))
        assert "loading" in shown(app)
        alive.set()


async def test_a_preset_is_shown_in_full_but_for_its_secrets(make, folder):
    async with presets(make, folder, size=(160, 50)) as (app, pilot):
        await press(pilot, "enter", then=lambda: len(pages_of(app).pages) == 2 and "CHECK" in shown(app))
        text = shown(app)
        await press(pilot, "escape", then=lambda: len(pages_of(app).pages) == 1 and "small" in table_text(app) and "CHECK" in shown(app))
        text += shown(app)  # the pane says the same
        for words in ("num_gpus=8", "WANDB_API_KEY=${WANDB_API_KEY}", "contains a secret in plain text"):
            assert words in text
        await press(pilot, "y", then="Esc: back")
        for secret in ("abcdef0123456789abcdef", "hf_abcdefghijklmnopqrst"):
            assert secret not in text
            assert secret not in app.screen.text


EDIT = "import sys; path = sys.argv[1]; text = open(path).read(); open(path, 'w').write(text.replace('small model', 'tiny model'))"


@pytest.mark.process
@pytest.mark.parametrize(
    ("editor", "name", "has_ended"),
    [
        (shlex.join((sys.executable, "-c", EDIT)), "small", lambda app, folder: "tiny model" in shown(app)),
        ("'vi", "small", lambda app, folder: "Can't start an editor" in said(app)),
        ("true", "verl-ppo", lambda app, folder: (folder / "verl-ppo.yaml").exists()),
    ],
    ids=["the user's own", "no command", "a copy of a ready-made preset"],
)
async def test_e_edits_a_preset_in_the_editor_of_its_user(make, folder, monkeypatch, editor, name, has_ended):
    monkeypatch.setenv("EDITOR", editor)
    async with presets(make, folder, PRESET if name == "small" else "", name, size=(160, 50)) as (app, pilot):
        monkeypatch.setattr(type(app._driver), "can_suspend", True)
        await press(pilot, "e", then=lambda: has_ended(app, folder))
        assert presets_folder() == folder


async def test_w_makes_a_preset_of_a_job_and_never_goes_over_another(make, folder):
    async with at(make(snapshot(jobs=(job(preset=None),))), "5", size=(120, 30), then="small-1") as (app, pilot):
        await press(pilot, "w", then="Save job small-1 as a preset")
        await press(pilot, "enter", then=lambda: (folder / "small-1.yaml").exists())
        assert "entrypoint: python train.py" in (folder / "small-1.yaml").read_text()
        assert app.monitor.waited_everywhere, "workers are not probed while Ray is well"
        assert not app.monitor.selection.everywhere
        assert stat.S_IMODE((folder / "small-1.yaml").stat().st_mode) == 0o600
        await press(pilot, "w", then="Save job small-1 as a preset")
        await press(pilot, "enter", then=lambda: "already exists" in said(app))


@pytest.mark.parametrize("key", ["e", "w"])
async def test_read_only_writes_no_preset(make, folder, key):
    lay(folder)
    async with at(make(snapshot(jobs=(job(),)), readonly=True), "7" if key == "e" else "5", size=(120, 30), then="small") as (app, pilot):
        before = sorted(folder.iterdir())
        await pilot.press(key)
        await pilot.pause()
        assert sorted(folder.iterdir()) == before
        assert len(app.screen_stack) == 1


def launch(**more):
    return Plan("launch", "Launch", (Target("job", "ray", name="small", id="small-2"),), hosts=("ray",), **more)


async def test_l_shows_the_plan_and_l_again_launches_and_opens_the_log(make, folder):
    async with presets(make, folder, executor=FakeExecutor(launch())) as (app, pilot):
        app.monitor.logs.batches = [["step 1"]]
        await press(pilot, "L", then="L again launches it")
        (_, chosen) = app.executor.planned[0]
        assert chosen.rows[0].job.entrypoint.startswith("python train.py")
        await pilot.press("L")  # typed ahead: it was meant for something else
        await until(pilot, lambda: app.screen._is_answerable)
        await press(pilot, "L", then=lambda: app.executor.performed and app.screen.stage == "receipt" and app.screen._is_answerable)
        assert len(app.executor.performed) == 1
        await press(pilot, "escape", then="Job small-2: job-driver-small-2.log")


async def test_where_the_preset_runs_already_its_name_must_be_typed(make, folder):
    async with presets(make, folder, executor=FakeExecutor(launch(word="small"))) as (app, pilot):
        await press(pilot, "L", then=lambda: "Type small to continue" in shown(app) and app.screen._is_answerable)
        await pilot.press("L")
        await pilot.pause()
        assert not app.executor.performed


async def test_a_preset_that_has_become_a_pipe_is_a_sentence_and_no_screen_that_hangs(make, folder):
    async with presets(make, folder, executor=FakeExecutor(launch())) as (app, pilot):
        (folder / "small.yaml").unlink()
        os.mkfifo(folder / "small.yaml")
        await press(pilot, "L", then=lambda: "small.yaml: not a regular file" in said(app))
        assert app.executor.planned == []


async def test_a_finished_job_is_launched_again_from_its_preset_as_it_is_now(make, folder):
    lay(folder)
    app = make(snapshot(jobs=(job(), job(id="other", submission="other", preset=None))), executor=FakeExecutor(launch()))
    async with at(app, "5", size=(120, 30), then="small-1") as (_, pilot):
        await press(pilot, "/", *"small", "enter", "L", then=lambda: app.executor.planned)
        assert app.executor.planned[0][1].rows[0].name == "small"
        await press(pilot, "escape", "escape", then="other")
        await press(pilot, "/", *"other", "enter", "L", then=lambda: len(app.executor.planned) == 2)
        assert app.executor.planned[1][1].rows[0].id == "other"


async def test_a_driver_that_was_never_submitted_can_not_be_launched_again(make, folder):
    app = make(snapshot(jobs=(job(id="01000000", submission=None, preset=None),)), executor=FakeExecutor())
    async with at(app, "5", size=(120, 30), then="01000000") as (_, pilot):
        await press(pilot, "L", then=lambda: "never submitted to Ray" in said(app))
        assert app.executor.planned == []


def test_a_mistake_in_a_command_is_not_called_never():
    mistake, small = Line("never", "a flag is missing"), Line("never", "there are only 8 GPUs in total")
    results = (judge(Budget(None, lines=(mistake,)), [mistake]), judge(Budget(None), [small]))
    (section,) = PresetsPage().sections(View())
    fits = next(column for column in section.columns if column.title == "FITS")
    assert [fits.cell(PresetEntry("ppo", "/ppo.yaml", checked=result), View())[0][0] for result in results] == ["mistake", "never"]
