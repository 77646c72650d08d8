"""The lanes of the tests, and how those with real processes and clusters share two cores."""

from __future__ import annotations

import asyncio
import gc
import re
import signal
import sys
import time
from collections.abc import Callable
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

LANES = {"unit": "unit", "screen": "screen", "real": "not unit and not screen and not incident and not truth and not remedy and not causes"}
"""What `--lane` selects: `make test` runs one after the other, `make unit` and `make screen` one alone."""
NOT_UNIT = ("process", "slow", "lab", "incident", "remedy", "truth", "causes", "old_ray", "gpu")
"""A test with none of these marks is marked `unit`; a coroutine in tests/ui opens the screen, and is marked `screen`."""
WHOLE_MODULE = re.compile(r"^pytestmark = .*\bmark\.(?:process|slow|lab)\b", re.MULTILINE)
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


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A module without a unit test need not be imported to know that: it would take a fifth of the time of `make unit`."""
    if collection_path.suffix != ".py" or config.getoption("lane") not in ("unit", "screen"):
        return None
    is_of_screen = collection_path.is_relative_to(TESTS / "ui")
    return bool(WHOLE_MODULE.search(collection_path.read_text())) or (config.getoption("lane") == "screen" and not is_of_screen) or None


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"skips": Loop} if item.get_closest_marker("skips_time") else {"waits": asyncio.new_event_loop}


@pytest.fixture
def seconds_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines kept by `time.monotonic` come as soon as the pauses before them are skipped."""
    monkeypatch.setattr(time, "monotonic", loop_time)


def needs_root(item: pytest.Item) -> bool:
    return any(str(mark.kwargs.get("reason")).startswith("needs root") for mark in item.iter_markers("skipif"))


def mark_lane(item: pytest.Item) -> None:
    if needs_root(item):
        item.add_marker("process")
    if not any(map(item.get_closest_marker, (*NOT_UNIT, "screen"))):
        is_screen = item.path.is_relative_to(TESTS / "ui") and iscoroutinefunction(getattr(item, "obj", None))
        item.add_marker("screen" if is_screen else "unit")


@pytest.hookimpl(tryfirst=True)  # before fixtures, which may start processes
def pytest_runtest_setup() -> None:
    _started.clear()


@pytest.hookimpl(trylast=True)  # after fixtures have ended
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """What starts a process is in neither of these lanes."""
    if _started and (item.get_closest_marker("unit") or item.get_closest_marker("screen")):
        pytest.fail(f"a unit test starts processes ({_started[0]}): mark it `process`")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lane := config.getoption("lane"):
        number = sum(len(terminalreporter.stats.get(outcome, ())) for outcome in ("passed", "failed", "error", "skipped"))
        terminalreporter.write_line(f"lane {lane}: {number} tests, {time.monotonic() - BEGAN:.0f} s")


# Real clusters share two cores

ROWS = {
    "acts": (
        "test_act.py", "test_attacks.py", "test_attacks_words.py", "test_clean.py", "test_launch.py", "test_ray_acts.py",
        "test_recover.py",
    ),
    "looks": ("test_endurance.py", "test_lab.py", "test_screen.py", "test_see.py", "test_trouble.py"),
}  # fmt: skip
"""Those that act come first; all others are the row `places`. The last are also about how soon something is seen: no other cluster starts
meanwhile."""
LOOK_ALIKES = "processes"
"""Probes see all processes of a machine: raylets that one test makes up would be another one's."""


def row_of(item: pytest.Item) -> str | None:
    """Tests of a row run one after the other; `None`: beside everything."""
    if "lab" in item.path.parts or "demo" in item.path.parts[-2:]:
        return next((name for name, files in ROWS.items() if item.path.name in files), "places")
    if item.get_closest_marker("unit") or item.get_closest_marker("screen"):
        return None
    return LOOK_ALIKES if "probe" in item.path.parts or item.path.parts[-2:] == ("cli", "test_actions.py") else None


@pytest.hookimpl(tryfirst=True)  # before -m selects, and xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        mark_lane(item)
    rows = {item: row_of(item) for item in items}
    order = ["acts", "places", "looks", LOOK_ALIKES, None]
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
