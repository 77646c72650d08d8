"""The output of squeue and sinfo of Slurm 22.05, and the facts made from it."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from cockpit.config.slurm import NodeNames
from cockpit.model import Allocation, SlurmNode
from cockpit.sources import slurm
from cockpit.sources.slurm import find_parts, read_allocation, read_names
from cockpit.sources.source import SourceError

NOW = 1_700_000_000.0


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The lines that each program prints; `asked` has the commands that were run."""
    output: dict[str, list[str]] = {"squeue": [], "sinfo": [], "asked": []}

    async def ask(program: str, *words: str) -> list[str]:
        output["asked"].append(" ".join((program, *words)))
        return output[program]

    monkeypatch.setattr(slurm, "_ask", ask)
    return output


async def test_a_job_has_its_time_left_and_each_of_its_nodes_once(printed: dict[str, list[str]]):
    printed["squeue"] = ["42|42|RUNNING|1-02:03:04|gpu[1-2]"]
    printed["sinfo"] = ["gpu1|c27n01|10.0.0.1|mixed|none", "gpu1|c27n01|10.0.0.1|mixed|none", "gpu2|gpu2|gpu2|draining|Xid 79 | fan"]
    found = await read_allocation("42", NOW)
    first = SlurmNode("gpu1", "mixed", others=("c27n01", "10.0.0.1"))
    assert found == Allocation("42", "RUNNING", NOW + 93784, (first, SlurmNode("gpu2", "draining", "Xid 79 | fan", ("gpu2",))))
    assert printed["asked"][1].startswith("sinfo --all --nodes=gpu[1-2] --Node")


@pytest.mark.parametrize(
    ("left", "seconds"), [("3:04", 184), ("0:00", 0), ("12:00:00", 43200), ("10-00:00:00", 864000), ("UNLIMITED", None), ("INVALID", None)]
)
async def test_the_time_left_is_read_in_all_formats_of_squeue(printed: dict[str, list[str]], left: str, seconds: float | None):
    printed["squeue"] = [f"42|42|RUNNING|{left}|gpu1"]
    assert (await read_allocation("42", 0.0)).ends == seconds


async def test_a_job_that_is_not_listed_or_forgotten_has_ended(printed: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch):
    async def ask(*_: str) -> list[str]:
        raise SourceError("squeue: slurm_load_jobs error: Invalid job id specified")

    for _ in range(2):
        with pytest.raises(SourceError, match=r"^Slurm job 42 has ended, or there is none$"):
            await find_parts("42")
        monkeypatch.setattr(slurm, "_ask", ask)


ARRAY = ["5|4_0|RUNNING|3:04|gpu1", "6|4_1|RUNNING|3:04|gpu2", "4|4_2|RUNNING|3:04|gpu3"]
"""The last task of an array has the array's own id."""


async def test_one_task_of_an_array_must_be_named(printed: dict[str, list[str]]):
    printed["squeue"] = ARRAY
    with pytest.raises(SourceError, match=r"4 matches several Slurm jobs; name one: 4_0 \(RUNNING\), 4_1 \(RUNNING\), 4_2 \(RUNNING\)"):
        await find_parts("4")
    assert [(one.id, one.nodes) for one in await find_parts("4_1")] == [("6", "gpu2")]
    assert [node.name for node in (await read_allocation("4", NOW)).nodes] == [], "only that task; sinfo does not list its node"
    assert printed["asked"][-1].startswith("sinfo --all --nodes=gpu3 ")


async def test_a_component_of_a_heterogeneous_job_brings_the_others(printed: dict[str, list[str]]):
    printed["squeue"] = ["7|7+0|RUNNING|3:04|gpu1", "8|7+1|RUNNING|3:04|gpu[2-3]"]
    assert [(one.id, one.nodes) for one in await find_parts("7+1")] == [("8", "gpu[2-3]"), ("7", "gpu1")]
    with pytest.raises(SourceError, match=r"7 matches several Slurm jobs; name one: 7\+0"):
        await find_parts("7")


async def test_the_time_left_is_known_even_if_nodes_may_not_be_listed(monkeypatch: pytest.MonkeyPatch):
    async def ask(program: str, *_: str) -> list[str]:
        if program == "sinfo":
            raise SourceError("sinfo: slurm_load_node: Access/permission denied")
        return ["42|42|RUNNING|3:04|gpu1"]

    monkeypatch.setattr(slurm, "_ask", ask)
    found = await read_allocation("42", NOW)
    assert (found.ends, found.nodes) == (NOW + 184, ())
    assert found.lacks == "Slurm does not report the state of its nodes: sinfo: slurm_load_node: Access/permission denied"


async def test_a_waiting_job_has_no_nodes(printed: dict[str, list[str]]):
    printed["squeue"] = ["42|42|PENDING|1:00:00|"]
    with pytest.raises(SourceError, match="has no nodes: it is PENDING"):
        await find_parts("42")
    assert (await read_allocation("42", NOW)).nodes == ()


async def test_a_text_that_is_no_list_of_nodes_is_passed_to_no_program_and_an_incomplete_line_is_no_node(printed: dict[str, list[str]]):
    printed["squeue"] = ["42|42|RUNNING|3:04|gpu1 --config=/tmp/x"]
    assert (await read_allocation("42", NOW)).nodes == ()
    assert len(printed["asked"]) == 1
    printed["squeue"], printed["sinfo"] = ["42|42|RUNNING|3:04|gpu1"], ["gpu1|gpu1", "", "|||"]
    assert (await read_allocation("42", NOW)).nodes == ()


async def test_a_node_of_the_job_has_its_other_names_and_its_address_from_slurm_or_the_resolver(printed: dict[str, list[str]]):
    printed["sinfo"] = ["gpu1|c27n01|10.0.0.1|mixed|none", "gpu2|gpu2|localhost|mixed|none", "gpu3|gpu3|no.such.name.invalid|mixed|none"]
    first, second, third = await read_names("gpu[1-3]")
    assert first == NodeNames("gpu1", ("c27n01", "10.0.0.1"), "10.0.0.1")
    assert second.address in ("127.0.0.1", "::1")
    assert third == NodeNames("gpu3", ("gpu3", "no.such.name.invalid"))
    printed["squeue"] = ["42|42|RUNNING|3:04|gpu1"]
    printed["sinfo"] = ["gpu1|c27n01|c27n01|mixed|none"]
    (node,) = (await read_allocation("42", NOW, lambda name: (name, "c27n01", "10.0.0.1"))).nodes
    assert node.others == ("c27n01", "gpu1", "10.0.0.1")


async def test_a_slurmctld_that_does_not_answer_times_out(monkeypatch: pytest.MonkeyPatch):
    async def ask(*_: str) -> list[str]:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(slurm, "_ask", ask)
    monkeypatch.setattr(slurm, "ADDRESSES_TIMEOUT_S", 0.01)
    with pytest.raises(SourceError, match="did not list its nodes within"):
        await read_names("gpu1")


async def test_addresses_found_before_the_resolver_hung_are_used(printed: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch):
    printed["sinfo"] = ["gpu1|gpu1|10.0.0.1|mixed|none", "gpu2|gpu2|gpu2|mixed|none"]
    ends, resolve = threading.Event(), socket.getaddrinfo

    def getaddrinfo(host: str, *args: object, **more: object) -> object:
        if host == "gpu2":
            ends.wait()
        return resolve(host, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(slurm.socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(slurm, "ADDRESSES_TIMEOUT_S", 0.1)
    try:
        assert [node.address for node in await read_names("gpu[1-2]")] == ["10.0.0.1", ""]
    finally:
        ends.set()
