from __future__ import annotations

import math

import pytest

from cockpit.sources.ray.resources import ResourceNames, is_grouped, mangle, parse_uses, plausible_amount, plausible_int, strip_group_names

GROUP = "1170df76616358ce8c39a7b4122302000000"


@pytest.mark.parametrize(
    ("real", "mangled"),
    [
        ("object_store_memory", "objectStoreMemory"),
        ("node:__internal_head__", "node:InternalHead"),
        ("special_hw_a", "specialHwA"),
        (f"GPU_group_0_{GROUP}", "GPUGroup01170Df76616358Ce8C39A7B4122302000000"),
    ],
)
def test_names_are_mangled_as_the_dashboard_does_it(real, mangled):
    assert mangle(real) == mangled


def test_a_real_name_is_restored_once_it_has_been_seen():
    names = ResourceNames()
    assert names.unmangle("specialHwA") == "specialHwA"
    names.learn(["special_hw_a", "GPU"])
    assert [names.unmangle(name) for name in ("specialHwA", "GPU", "objectStoreMemory", "acceleratorType:H100")] == [
        "special_hw_a",
        "GPU",
        "object_store_memory",
        "accelerator_type:H100",
    ]


def test_a_groups_share_is_recognized_by_its_real_and_its_mangled_name():
    assert is_grouped(f"GPU_group_0_{GROUP}")
    assert is_grouped("GPUGroup1170Df76616358Ce8C39A7B4122302000000")
    assert not is_grouped("GPU")
    assert not is_grouped("my_group_of_things")


def test_a_gpu_that_a_group_names_twice_is_one_gpu():
    assert strip_group_names(
        {f"GPU_group_{GROUP}": 1.0, f"GPU_group_1_{GROUP}": 1.0, f"bundle_group_{GROUP}": 0.001, "special_hw_a": 2.0}
    ) == {
        "GPU": 1.0,
        "special_hw_a": 2.0,
    }


def test_all_that_a_group_reserves_counts_as_used():
    text = "2.5/8.0 GPU (1.0 used of 2.0 reserved in placement groups)\n0.0/4.0 CPU (0.0 used of 1.0 reserved in placement groups)"
    assert parse_uses(text) == {"GPU": (3.5, 8.0), "CPU": (1.0, 4.0)}


def test_memory_is_read_with_its_unit():
    assert parse_uses("1.50GiB/22.20GiB memory\n0B/190.73MiB object_store_memory") == {
        "memory": (1.5 * 2**30, 22.2 * 2**30),
        "object_store_memory": (0.0, 190.73 * 2**20),
    }


def test_lines_of_another_format_are_ignored():
    assert parse_uses("hello\n/ GPU\n1-e/2 GPU x\n\n") == {}


@pytest.mark.parametrize("absurd", [math.nan, math.inf, -math.inf, 1e18, -1e300])
def test_an_implausible_amount_is_unknown(absurd):
    assert plausible_amount(absurd) is plausible_int(absurd) is None
    assert strip_group_names({"GPU": absurd, "CPU": 1.0}) == {"CPU": 1.0}
