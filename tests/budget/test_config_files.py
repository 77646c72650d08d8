"""YAML files are composed with what their defaults name."""

from __future__ import annotations

from cockpit.budget.config_files import compose, merge, read_chain, read_yaml


def test_a_chain_goes_up_by_relative_paths_and_the_child_wins():
    files = {
        "a/b/child.yaml": "defaults: ../parent.yaml\nx: {y: 2}",
        "a/parent.yaml": "defaults: [base.yaml]\nx: {y: 1, z: 1}",
        "a/base.yaml": "w: 3",
    }
    assert read_chain(files.get, "a/b/child.yaml") == ({"x": {"y": 2, "z": 1}, "w": 3}, [])
    assert read_chain({"c.yaml": "defaults: c.yaml"}.get, "c.yaml") == ({}, ["c.yaml"]), "it ends"


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
