"""What is packaged elsewhere says the same as pyproject.toml and the code."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from cockpit import __version__
from cockpit.cli.main import main
from cockpit.cli.service import UNIT
from tests.fakes.kubernetes import EVERYTHING

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PACKAGING = ROOT / "packaging"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RECIPE = yaml.safe_load((PACKAGING / "conda/recipe.yaml").read_text())
CONDA_NAMES = {"prometheus-client": "prometheus_client"}
"""Where conda-forge calls a package otherwise."""
DOES = {
    "record": "records a Ray cluster",
    "watch": "sends notifications about findings of a Ray cluster",
    "metrics --listen 127.0.0.1:9265": "answers Prometheus about a Ray cluster",
}


def conda_words(requirement):
    name, limits = re.fullmatch(r"([\w-]+)(.*)", requirement).groups()
    return f"{CONDA_NAMES.get(name, name)} {limits}"


def test_the_recipe_asks_for_what_the_project_asks_for():
    python, *run = RECIPE["requirements"]["run"]
    assert python == "python >=${{ python_min }}"
    assert run == [conda_words(one) for one in PROJECT["project"]["dependencies"]]
    assert set(map(conda_words, PROJECT["build-system"]["requires"])) <= set(RECIPE["requirements"]["host"])


def test_the_recipe_is_of_this_version_and_has_the_same_commands():
    assert RECIPE["context"]["version"] == __version__
    assert RECIPE["build"]["python"]["entry_points"] == [f"{name} = {where}" for name, where in PROJECT["project"]["scripts"].items()]
    assert RECIPE["about"]["license"] == PROJECT["project"]["license"]
    assert RECIPE["about"]["summary"] == PROJECT["project"]["description"]


@pytest.mark.parametrize("words", DOES)
def test_a_unit_is_the_one_that_the_command_prints(words):
    name = words.split()[0]
    unit = (PACKAGING / f"systemd/cockpit-{name}.service").read_text()
    assert unit.strip() == UNIT.format(name=name, does=DOES[words], words=words, command=f"%h/.local/bin/cockpit {words}")
    assert f'"{DOES[words]}"' in "".join(path.read_text() for path in (ROOT / "cockpit/cli").glob("*.py"))


def test_the_sidecar_runs_a_command_that_there_is():
    words = dict(re.findall(r"^(ENTRYPOINT|CMD) \[(.*)\]$", (PACKAGING / "Dockerfile").read_text(), re.MULTILINE))
    assert shlex.split(words["ENTRYPOINT"]) == ["cockpit"]
    assert main.get_command(click.Context(main), *shlex.split(words["CMD"])) is not None


def test_the_role_for_kubernetes_allows_what_the_stand_in_of_its_api_server_is_asked_and_no_more():
    """`create` is what `kubectl exec` needs over SPDY, which the stand-in does not speak."""
    role, binding = yaml.safe_load_all((PACKAGING / "kubernetes-role.yaml").read_text())
    rights = [f"{verb} {kind}" for rule in role["rules"] for kind in rule["resources"] for verb in rule["verbs"]]
    assert sorted(rights) == sorted([*EVERYTHING, "create pods/exec"])
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert (role["kind"], binding["kind"]) == ("Role", "RoleBinding"), "of one namespace"


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["project"]["license"]


def test_both_names_start_the_program_and_the_man_page_is_not_that_of_debians_cockpit():
    assert set(PROJECT["project"]["scripts"]) == {"cockpit", PROJECT["project"]["name"]}
    assert len(set(PROJECT["project"]["scripts"].values())) == 1
    assert [*PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"].values()] == ["share/man/man1/ray-cockpit.1"]


WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())


def test_a_release_is_tried_with_every_python_that_the_project_names():
    prefix = "Programming Language :: Python :: "
    named = [one.removeprefix(prefix) for one in PROJECT["project"]["classifiers"] if re.fullmatch(rf"{prefix}\d\.\d+", one)]
    assert PROJECT["project"]["requires-python"] == f">={named[0]}"
    assert WORKFLOW["jobs"]["try"]["strategy"]["matrix"]["python"] == named
    pythons = re.search(r"^PYTHONS \?= (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert pythons is not None
    assert pythons[1].split() == [f"python{one}" for one in named]


def test_only_a_tag_is_published_after_all_trials_and_only_that_job_may_sign_in():
    jobs = WORKFLOW["jobs"]
    assert (jobs["publish"]["needs"], jobs["try"]["needs"]) == ("try", "build")
    assert jobs["publish"]["if"] == "github.event_name == 'push' && startsWith(github.ref, 'refs/tags/v')"
    assert (jobs["publish"]["environment"], jobs["publish"]["permissions"]) == ("pypi", {"id-token": "write"})
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert [name for name, job in jobs.items() if "permissions" in job] == ["publish"]
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text()


def tag_check(tag: str) -> int:
    """The exit code of the workflow's own step, run in this checkout."""
    step = next(step for step in WORKFLOW["jobs"]["build"]["steps"] if step.get("name") == "The tag is the version")
    env = {**os.environ, "TAG": tag, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(["bash", "-e", "-c", step["run"]], cwd=ROOT, env=env, stdout=subprocess.DEVNULL, check=False).returncode


@pytest.mark.process
def test_a_tag_that_is_not_the_version_ends_the_release():
    assert tag_check(f"v{__version__}") == 0
    assert tag_check("v0.0.1") == tag_check(__version__) == 1
