"""YAML files are composed with what their defaults name."""

from __future__ import annotations

import pytest

from cockpit.budget.config_files import MAX_FILES, compose, merge, read_yaml


def test_a_chain_goes_up_by_relative_paths_and_the_child_wins():
    files = {
        "a/b/child.yaml": "defaults: ../parent.yaml\nx: {y: 2}",
        "a/parent.yaml": "defaults: [base.yaml]\nx: {y: 1, z: 1}",
        "a/base.yaml": "w: 3",
    }
    assert compose(files.get, "a/b", "child.yaml") == ({"x": {"y": 2, "z": 1}, "w": 3}, [])
    assert compose({"c.yaml": "defaults: c.yaml"}.get, "", "c.yaml") == ({}, ["c.yaml"]), "it ends"


def test_a_section_may_replace_the_lower_one_whole():
    assert merge({"x": {"y": 1}}, {"x": {"_override_": True, "z": 2}}) == {"x": {"_override_": True, "z": 2}}


def test_hydra_takes_groups_into_their_sections_and_the_configuration_goes_last():
    files = {
        "c/main.yaml": "defaults:\n  - base\n  - optimizer: adam\n  - override hydra/x: y\n  - ../other/envs@_here_\n  - gone\nn: 2\n",
        "c/base.yaml": "n: 1\nm: 1\n",
        "c/optimizer/adam.yaml": "lr: 3\n",
        "other/envs.yaml": "e: 4\n",
    }
    assert compose(files.get, "c", "main") == ({"n": 2, "m": 1, "optimizer": {"lr": 3}, "e": 4}, ["c/gone.yaml"])
    assert compose({"c/main.yaml": "defaults: [_self_, base]\nn: 2\n", **files}.get, "c", "nothing") == ({}, ["c/nothing.yaml"])


def test_what_is_no_yaml_is_not_read():
    assert read_yaml({"a": "{"}.get, "a") is None
    assert read_yaml({"a": "- 1"}.get, "a") is None
    assert read_yaml({}.get, "\0") is None


REPEATS = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 12))


@pytest.mark.parametrize(
    "text",
    [
        REPEATS, MERGES, "a: &a {b: *a}", "a: &a [*a]", f"a: &a '{'x' * 100_000}'\nb: [{', '.join(['*a'] * 100)}]", f"a: 0x{'f' * 5000}",
        "a: !!bool maybe", "a: !!int ''", "a: !!timestamp soon", f"{'[' * 100}{']' * 100}", "a: !!python/object/apply:os.getpid []",
    ],
)  # fmt: skip
def test_hostile_yaml_is_not_read(text: str):
    assert read_yaml({"a": f"{text}\nn: 1"}.get, "a") is None


def test_an_alias_is_read():
    assert read_yaml({"a": "x: &x {y: 1}\nz: {<<: *x, w: *x}"}.get, "a") == {"x": {"y": 1}, "z": {"y": 1, "w": {"y": 1}}}


def test_files_that_name_each_other_many_times_end():
    reads: list[str] = []

    def read(path: str) -> str:
        reads.append(path)
        return f"defaults: [{', '.join(['c.yaml', '/c'] * 20)}]\nn: 1"

    compose(read, "", "c")
    assert len(reads) <= MAX_FILES


def test_a_package_of_very_many_sections_is_not_followed():
    files = {"main.yaml": f"defaults: [base@{'a.' * 100_000}a]\nn: 2", "base.yaml": "m: 1"}
    assert compose(files.get, "", "main") == ({"n": 2}, ["main.yaml"])
