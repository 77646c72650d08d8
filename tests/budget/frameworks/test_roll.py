"""What ROLL commands ask for: whole nodes up to the highest index of its device mappings."""

from __future__ import annotations

import pytest

from tests.budget.frameworks.commands import groups, read

WORDS = "--config_path demo --config_name mine"


def config(*mappings: str) -> dict[str, str]:
    roles = "".join(f"role{number}:\n  device_mapping: {mapping}\n" for number, mapping in enumerate(mappings))
    return {"examples/demo/mine.yaml": f"defaults:\n  - ../config/envs@_here_\n  - _self_\nnum_gpus_per_node: 2\n{roles}"}


@pytest.mark.parametrize(
    ("mappings", "nodes"),
    [
        (["list(range(0,1))"], 1),
        (["list(range(0,8))", "list(range(8,16))"], 2),
        (['"[1]"', "null"], 1),
        (["list([0,1,2,3,8,9,10,11])"], 2),
        (["list(range(0, 4)) + list(range(20, 24))"], 3),
    ],
)
def test_whole_nodes_are_taken_up_to_the_highest_index(mappings: list[str], nodes: int):
    budget = read("examples/start_agentic_pipeline.py", WORDS, config(*mappings))
    assert (budget.framework, groups(budget)) == ("ROLL", [("nodes", 8, "PACK")] * nodes)
    assert "counted with 8 on each" in budget.doubts[0]


def test_before_0_1_3_the_file_said_how_many_gpus_a_node_has():
    files = config("list(range(0,8))")
    budget = read("examples/start_rlvr_pipeline.py", WORDS, files, pins={"roll": "0.1.1"})
    assert (groups(budget), budget.mark) == ([("nodes", 2, "PACK")] * 4, "firm")


@pytest.mark.parametrize("files", [{}, config("list(range(0,N))"), config("null")])
def test_what_cannot_be_read_is_no_number(files: dict[str, str]):
    budget = read("examples/start_rlvr_pipeline.py", WORDS, files)
    assert budget.gpus is None
    assert budget.unread
