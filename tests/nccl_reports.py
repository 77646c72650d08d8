"""Reports of NCCL's RAS, made from the description of their formats: as JSON, and as the text of older versions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

FINE = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
COUNTS = {"Broadcast": 12, "Reduce": 0, "AllGather": 40, "ReduceScatter": 40, "AllReduce": 412}


def rank(
    number: int, host: str = "10.0.0.1", pid: int | None = None, status: Mapping[str, Any] | None = None, **counts: int
) -> dict[str, Any]:
    return {
        "rank": number,
        "host": host,
        "pid": 4000 + number if pid is None else pid,
        "cuda_dev": 0,
        "nvml_dev": number,
        "status": {**FINE, **(status or {})},
        "collective_counts": {**COUNTS, **counts},
    }


def missing(number: int, *, unresponsive: bool = True, dead: bool = False, **more: Any) -> dict[str, Any]:
    status = {"unresponsive": unresponsive, "considered_dead": dead}
    return {"rank": number, "host": "10.0.0.1", "pid": 4000 + number, "cuda_dev": 0, "nvml_dev": number, "status": status, **more}


def communicator(*ranks: dict[str, Any], absent: tuple[dict[str, Any], ...] = (), name: str = "0x1111") -> dict[str, Any]:
    return {
        "hash": name,
        "secondary_hash": "0x2222:0x3333",
        "size": len(ranks) + len(absent),
        "ranks_count": len(ranks),
        "missing_ranks_count": len(absent),
        "ranks": list(ranks),
        "missing_ranks": list(absent),
    }


def json_report(*communicators: dict[str, Any], version: str = "2.29.7", timeouts: int = 0) -> str:
    whole = {
        "nccl_version": version,
        "cuda_runtime_version": 13000,
        "cuda_driver_version": 13000,
        "timestamp": "2026-01-01 12:00:00",
        "communicators_count": len(communicators),
        "communicators": list(communicators),
        "ras": {"collection_time_sec": 0.012, "timeouts_count": timeouts},
    }
    return json.dumps(whole, indent=2) + "\n"


def without_comma(report: str) -> str:
    """As 2.28.7 and 2.28.9 write missing ranks."""
    lines = report.split("\n")
    for number, line in enumerate(lines[:-2]):
        if "nvml_dev" in line and "status" in lines[number + 1] and "unresponsive" in lines[number + 2]:
            lines[number] = line.rstrip(",")
    return "\n".join(lines)


def text_report(rows: str, errors: str = "", warnings: str = "", *, version: str = "2.27.5", processes: int = 8) -> str:
    return f"""NCCL version {version} compiled with CUDA 12.9
CUDA runtime version 12090, driver version 12090

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      1  {processes:9}            1  {processes:9}  {processes:7}

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
{rows}

Errors
======

{errors}
Warnings
========

{warnings}"""


MISMATCH_ROW = "    0         1         1         8         8         8   RUNNING  MISMATCH"
HEALTHY_ROW = "    0         4         1         8         8         8   RUNNING      OK"
MISMATCH = """#0-0 (1111111111111111) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 412
  Rank 3 has launched up to operation 411 -- GPU 0 (NVML 3) managed by process 4003 on node 10.0.0.1

"""
