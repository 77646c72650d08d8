"""The lanes of the tests, and how those with real processes and clusters share two cores."""

from __future__ import annotations

import asyncio
import gc
import re
import signal
import sys
import time
from collections.abc import Callable
from fnmatch import translate
from functools import cache
from inspect import iscoroutinefunction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.loop import Loop, loop_time

BEGAN = time.monotonic()
TESTS = Path(__file__).parent

settings.register_profile("busy", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")  # how long an example takes says how busy the machine is

signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs this in the background of a script has it ignored, and so its children

# Lanes

LANES = {"unit": "unit", "screen": "screen", "real": "not unit and not screen and not incident and not truth and not remedy"}
"""What `--lane` selects: `make test` runs one after the other, `make unit` and `make screen` one alone."""
NOT_UNIT = ("process", "slow", "lab", "incident", "remedy", "truth", "old_ray", "gpu")
"""A test with none of these marks is marked `unit`; where it opens the screen, `screen`."""
SCREEN = ("ui/*",)
"""Where the coroutines open the screen in this process, each in a fifth of a second."""
PROCESS = (
    "acts/launch/test_package.py::test_patterns_are_read_as_git_reads_them",
    "acts/test_audit.py::test_the_log_is_complete_json_after_a_kill*",
    "acts/test_audit.py::test_two_cockpits_never_mix_their_lines",
    "budget/scripts/test_scripts.py::*bash*",
    "budget/scripts/test_streams.py",
    "cli/test_acts.py",
    "cli/test_entry.py",
    "cli/test_launch.py",
    "cli/test_main.py",
    "cli/test_screen.py",
    "demo/*",
    "monitor/test_monitor.py",
    "probe/test_*.py",
    "probe/acts/*",
    "probe/look/test_processes.py",
    "probe/look/test_raylets.py",
    "probe/look/test_sessions.py",
    "probe/look/test_stacks.py",
    "sources/kubernetes/test_api.py",
    "sources/kubernetes/test_api_official_client.py",
    "sources/probes/test_payload.py",
    "sources/probes/test_pool.py",
    "sources/probes/test_requests.py",
    "sources/probes/test_ssh.py",
    "sources/probes/test_process.py",
    "test_attacks_words.py",
    "test_output.py",
    "test_soak.py",
    "ui/test_alarm.py::*tmux*",
    "ui/test_presets_page.py::*edit*",
)
"""Modules and tests that start processes, as patterns of `path::name`; a test may also bear the mark `process` itself."""
SLOW = (
    "findings/test_hostile_hosts.py::test_hostile*",
    "findings/test_hostile_waiting.py::test_hostile*",
    "monitor/test_pending.py::test_absurd*",
    "probe/look/test_many.py",
    "recording/test_hostile.py::test_no_mutation*",
    "test_secrets.py::*takes_longer_than_its_length*",
    "ui/test_footer.py::test_changing_pages_leaves_nothing_behind",
    "ui/test_log_view.py::test_ten_thousand_lines*",
    "ui/test_log_view.py::*takes_longer_than_its_length*",
    "ui/test_plan_dialog.py::test_hostile_text*",
)
"""The same for tests that take seconds of a core each."""
SKIPPING = (
    "acts/recover/*",
    "monitor/test_poller.py",
    "sources/ray/*",
    "ui/*",
)
"""Tests that pause, retry and give up, with all that they wait for in this process: no time passes unused in their loop."""
STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}

_started: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--lane",
        choices=LANES,
        help="which tests: unit (no process, no root, no Ray), screen, or real (all others but incidents and truth)",
    )


def pytest_configure(config: pytest.Config) -> None:
    if lane := config.getoption("lane"):
        config.option.markexpr = LANES[lane]
    sys.addaudithook(lambda event, _: _started.append(event) if event in STARTS else None)


@cache
def expression(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One for all: thousands of tests against dozens of patterns took a tenth of the collection."""
    return re.compile("|".join(translate(pattern if "::" in pattern else f"{pattern}::*") for pattern in patterns))


@cache
def name_of(path: Path) -> str:
    return path.relative_to(TESTS).as_posix()


def is_listed(item: pytest.Item, patterns: tuple[str, ...]) -> bool:
    return bool(expression(patterns).match(f"{name_of(item.path)}::{item.name}"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What has no unit test need not be imported to know it."""
    whole = tuple(pattern for pattern in (*PROCESS, *SLOW, "lab/*") if "::" not in pattern)
    lane, name = config.getoption("lane"), f"{name_of(collection_path)}::"
    if collection_path.suffix != ".py" or lane not in ("unit", "screen"):
        return None
    return bool(expression(whole).match(name) or (lane == "screen" and not expression(SCREEN).match(name))) or None


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"skips": Loop} if is_listed(item, SKIPPING) else {"waits": asyncio.new_event_loop}


@pytest.fixture
def seconds_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines kept by `time.monotonic` come as soon as the pauses before them are skipped."""
    monkeypatch.setattr(time, "monotonic", loop_time)


def needs_root(item: pytest.Item) -> bool:
    return any(str(mark.kwargs.get("reason")).startswith("needs root") for mark in item.iter_markers("skipif"))


def mark_lane(item: pytest.Item) -> None:
    if needs_root(item) or is_listed(item, PROCESS):
        item.add_marker("process")
    if is_listed(item, SLOW):
        item.add_marker("slow")
    if not any(map(item.get_closest_marker, NOT_UNIT)):
        is_screen = is_listed(item, SCREEN) and iscoroutinefunction(getattr(item, "obj", None))
        item.add_marker("screen" if is_screen else "unit")


@pytest.hookimpl(tryfirst=True)  # before fixtures, which may start processes
def pytest_runtest_setup() -> None:
    _started.clear()


@pytest.hookimpl(trylast=True)  # after fixtures have ended
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Holds the table above: what starts a process is in neither of these lanes."""
    if _started and (item.get_closest_marker("unit") or item.get_closest_marker("screen")):
        pytest.fail(f"a unit test starts processes ({_started[0]}): mark it `process`, or list it in PROCESS (tests/conftest.py)")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lane := config.getoption("lane"):
        number = sum(len(terminalreporter.stats.get(outcome, ())) for outcome in ("passed", "failed", "error", "skipped"))
        terminalreporter.write_line(f"lane {lane}: {number} tests, {time.monotonic() - BEGAN:.0f} s")


# Real clusters share two cores

ROWS = {
    "acts": (
        "test_act.py",
        "test_attacks.py",
        "test_attacks_words.py",
        "test_clean.py",
        "test_launch.py",
        "test_ray_acts.py",
        "test_recover.py",
    ),
    "places": (
        "test_placement.py",
        "test_containers.py",
        "test_endings.py",
        "test_full_disk.py",
        "test_incidents_compared.py",
        "test_incidents_hosts.py",
        "test_incidents_limits.py",
        "test_incidents_ray.py",
        "test_incidents_recorded.py",
        "test_incidents_surroundings.py",
        "test_incidents_waits.py",
        "test_kubernetes.py",
        "test_many_hosts.py",
        "test_reach.py",
        "test_remedies.py",
        "test_several_rays.py",
        "test_silent_sources.py",
        "test_slurm.py",
        "test_slurm_memory.py",
        "test_slurm_names.py",
        "test_slurm_shared.py",
        "test_slurm_start.py",
        "test_slurm_user.py",
        "test_stop.py",
        "test_cluster.py",
        "test_models.py",
        "test_nvml.py",
        "test_preset.py",
        "test_processes.py",
    ),
    "looks": ("test_endurance.py", "test_lab.py", "test_screen.py", "test_see.py", "test_trouble.py"),
}
"""Those that act come first, in two rows. The last are also about how soon something is seen: no other cluster starts meanwhile."""
LOOK_ALIKES = "processes"
"""Probes see all processes of a machine: raylets that one test makes up would be another one's."""


def row_of(item: pytest.Item) -> str | None:
    """Tests of a row run one after the other; `None`: beside everything."""
    if "lab" in item.path.parts or "demo" in item.path.parts[-2:]:
        return next(name for name, files in ROWS.items() if item.path.name in files)
    if item.get_closest_marker("unit") or item.get_closest_marker("screen"):
        return None
    return LOOK_ALIKES if "probe" in item.path.parts or item.path.parts[-2:] == ("cli", "test_acts.py") else None


@pytest.hookimpl(tryfirst=True)  # before -m selects, and xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        mark_lane(item)
    rows = {item: row_of(item) for item in items}
    order = [*ROWS, LOOK_ALIKES, None]
    items.sort(key=lambda item: order.index(rows[item]))
    for item, row in rows.items():
        if row:
            item.add_marker(pytest.mark.xdist_group(row))


def pytest_collection_finish() -> None:
    """Thousands of tests are no garbage: going through them at each collection made the screen's tests half as slow again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # Python's own 700 looked for garbage hundreds of times while one screen opened


def pytest_make_parametrize_id(val: object) -> str | None:
    """An id of a megabyte would go with every report from one process to the other."""
    return f"{val[:60]}…" if isinstance(val, str) and len(val) > 200 else None
