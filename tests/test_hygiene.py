"""What the project promises about itself: what imports what, what is committed, what is written down."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cockpit

ROOT = Path(__file__).parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text()


def imported_by(code: str) -> set[str]:
    """Every module that a fresh Python has loaded after `code`; one that hangs tells where."""
    whole = f"import faulthandler, sys; faulthandler.dump_traceback_later(60, exit=True)\n{code}\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


def committed(*patterns: str) -> list[Path]:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("no git checkout here")
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], capture_output=True, check=True, cwd=ROOT).stdout
    return [path for name in listed.decode().split("\0") if name and (path := ROOT / name).is_file()]


def python_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.process
def test_a_status_in_json_pays_for_no_screen():
    loaded = imported_by("""
import contextlib, os
os.environ['RAY_API_SERVER_ADDRESS'] = 'http://127.0.0.1:9'
from cockpit.cli.main import main
with contextlib.suppress(SystemExit), open(os.devnull, 'w') as nowhere, contextlib.redirect_stdout(nowhere):
    main(['status', '--json'])
""")
    assert "cockpit.report.snapshot_text" in loaded, "the status was not made"
    heavy = {name for name in loaded if name.split(".")[0] in ("textual", "rich")}
    # httpx loads a command line of its own, with rich, where rich is installed.
    assert not heavy or ("httpx._main" in loaded and not any(name.startswith("textual") for name in heavy))


@pytest.mark.process
def test_the_program_imports_neither_the_screen_nor_a_command_before_it_knows_which_is_wanted():
    loaded = imported_by("import cockpit.cli.main")
    assert not {"asyncio", "httpx", "textual", "rich", "cockpit.presets", "cockpit.actions.table", "cockpit.monitor.monitor"} & loaded


@pytest.mark.process
def test_the_help_of_all_commands_needs_no_screen():
    loaded = imported_by("import cockpit.cli.main as cli; cli.main.get_command(None, 'no such command')")
    assert "cockpit.cli.replay" in loaded
    assert "textual" not in loaded


@pytest.mark.process
def test_nothing_imports_ray():
    """Scripts that the demo hands to the cluster's own Python are no part of the program."""
    libraries = [path for path in python_files("cockpit") if path.name != "__main__.py" and "scripts" not in path.parts]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in libraries]
    loaded = imported_by("\n".join(f"import {name}" for name in names))
    assert set(names) <= loaded
    assert not {name for name in loaded if name.split(".")[0] == "ray"}


def test_only_what_runs_inside_the_demo_cluster_names_ray():
    imports = re.compile(r"^\s*(?:import|from) ray\b", re.MULTILINE)
    naming = {path.parent for path in python_files("cockpit") if imports.search(path.read_text())}
    assert naming <= {ROOT / "cockpit/demo/scripts"}


@pytest.mark.process
def test_every_module_imports_only_from_the_layers_below_it():
    lint = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([lint, "--no-cache"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_test_module_imports_another():
    """What tests share lies in a module of its own beside them, so that each file of tests can be moved and run alone."""
    imports = re.compile(r"\b(?:from|import) tests(?:\.\w+)*(?:\.| import )test_\w+")
    others = [path for path in python_files("tests") + python_files("bench") if path != Path(__file__)]
    assert [str(path.relative_to(ROOT)) for path in others if imports.search(path.read_text())] == []


@pytest.mark.process
def test_no_committed_file_knows_where_it_was_written():
    machine = re.compile(rb"(?<![\w.$~-])/(?:work|root)/")
    assert [str(path.relative_to(ROOT)) for path in committed() if path != Path(__file__) and machine.search(path.read_bytes())] == []


def test_every_file_that_contributing_names_is_there():
    """NAME and CONCERN stand for what a reader chooses."""
    named = set(re.findall(r"`((?:cockpit|tests)/[\w./*]+|\w+\.(?:md|toml))[`/]", (ROOT / "CONTRIBUTING.md").read_text()))
    there = {name for name in named if "NAME" in name or "CONCERN" in name or any(ROOT.glob(name.rstrip("/")))}
    assert len(named) > 20
    assert named - there == set()


def test_there_is_one_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+(?:\.?(?:dev|a|b|rc)\d+)?", cockpit.__version__)
    assert 'dynamic = ["version"]' in PYPROJECT
    assert 'path = "cockpit/__init__.py"' in PYPROJECT


def test_every_dependency_says_why_it_is_there_and_is_pinned():
    listed = re.search(r"^dependencies = \[\n(.*?)^\]", PYPROJECT, re.MULTILINE | re.DOTALL)
    lists = re.search(r"^dependencies = .*?^\[project\.scripts\]", PYPROJECT, re.MULTILINE | re.DOTALL)
    assert listed is not None
    assert lists is not None
    assert listed[1].splitlines()
    assert [line for line in listed[1].splitlines() if not re.fullmatch(r'    "[\w.\-\[\]>=<,]+",\s+# \w.*', line)] == []
    pinned = [line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line]
    named = re.findall(r'^    "([\w.-]+?)(?:\[\w+\])?(?:[<>=!~].*)?",', lists[0], re.MULTILINE)
    pins, wanted = ({re.sub(r"[-_.]+", "-", name).lower() for name in names if name != "ray-cockpit"} for names in (pinned, named))
    assert len(wanted) > 10
    assert wanted - pins == set()


SEVERAL = {
    "attacks", "durable", "everything", "exit_codes", "forests", "hanging", "hostile", "hostile_hosts", "hostile_waiting",
    "many", "models", "program", "scripts", "ssh",
}  # fmt: skip
"""What test modules are about that try several modules of their folder together."""


def is_mirrored(test: Path) -> bool:
    """`test_disks.py`, and `test_disks_filling.py`, beside `disks.py`; a package is tried as a whole by a test of its own name."""
    folder, name = ROOT / "cockpit" / test.parent.relative_to(ROOT / "tests"), test.stem.removeprefix("test_")
    words = name.split("_")
    modules = ("_".join(words[:number]) for number in range(1, len(words) + 1))
    return name in SEVERAL or name == folder.name or any((folder / f"{one}.py").exists() or (folder / one).is_dir() for one in modules)


def test_each_test_module_is_named_after_what_it_tests():
    """Those beside this one are about the whole project; a lab, a screen, frameworks, remedies and causes are no modules of cockpit's."""
    own = [path for path in python_files("tests") if path.name.startswith("test_") and path.parent != ROOT / "tests"]
    tried = [path for path in own if not {"lab", "ui", "frameworks", "remedies", "causes"} & set(path.parts)]
    assert [str(path.relative_to(ROOT)) for path in tried if not is_mirrored(path)] == []
