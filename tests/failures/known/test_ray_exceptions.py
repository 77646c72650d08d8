"""Every exception of the installed Ray, and each way in which its workers end, has an explanation."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

from cockpit.failures import describe, find_root_error

ABOUT_OTHER_CODE = {"RayError", "RayTaskError", "CrossLanguageError"}
"""They only carry another error, or are the base of the others."""


def exceptions_of_ray() -> list[str]:
    spec = importlib.util.find_spec("ray")
    assert spec is not None
    assert spec.submodule_search_locations
    tree = ast.parse((Path(spec.submodule_search_locations[0]) / "exceptions.py").read_text())
    return sorted({each.name for each in tree.body if isinstance(each, ast.ClassDef)} - ABOUT_OTHER_CODE)


def known_in(text: str) -> str | None:
    error = find_root_error(["step 1", text])
    return describe(error).known if error else None


@pytest.mark.parametrize("name", exceptions_of_ray())
def test_an_exception_of_ray_is_explained(name: str):
    assert known_in(f"ray.exceptions.{name}: words that nobody knows") is not None


@pytest.mark.parametrize("kind", ["SYSTEM_ERROR", "USER_ERROR", "NODE_OUT_OF_MEMORY", "INTENDED_SYSTEM_EXIT", "INTENDED_USER_EXIT"])
def test_each_way_in_which_a_worker_ends_is_explained(kind: str):
    end = f"Worker exit type: {kind} Worker exit detail: x"
    assert known_in(end) is not None
    assert known_in(f"ray.exceptions.ActorDiedError: The actor is dead because its worker process has died. {end}") is not None
