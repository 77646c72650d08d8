"""Starts Ray's two nodes, prints their addresses, and ends them when the program that started this ends.

Run by the cluster's own Python as `python nodes.py FOLDER DASHBOARD_PORT HEAD_STATE W1_STATE`. Its stdin is a pipe from that program: when
the program ends, so does the pipe. Both nodes listen on the loopback only.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import traceback

from ray.cluster_utils import Cluster

import processes  # isort: skip  # after Ray, which brings psutil along

NODE = {"num_cpus": 32, "num_gpus": 8, "object_store_memory": 100 << 20}


def main(folder: str, dashboard_port: str, head_state: str, worker_state: str) -> None:
    try:
        os.environ["NVML_SIM_STATE"] = head_state
        cluster = Cluster(
            initialize_head=True,
            head_node_args={
                **NODE,
                "node_name": "head",
                "include_dashboard": True,
                "dashboard_host": "127.0.0.1",
                "dashboard_port": int(dashboard_port),
                "dashboard_agent_listen_port": 0,
            },
        )
        os.environ["NVML_SIM_STATE"] = worker_state
        cluster.add_node(**NODE, node_name="w1", dashboard_agent_listen_port=0)
        print(json.dumps({"gcs": cluster.address, "session": cluster.head_node.get_session_dir_path()}), flush=True)
        sys.stdin.read()
    except Exception:  # noqa: BLE001 any error
        traceback.print_exc()  # into nodes.log, which is read when our stdout ends
        os.close(sys.stdout.fileno())
        sys.stdin.read()
    finally:
        processes.end_marked(folder)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)  # Ray's own exit handlers would wait for processes that are gone


if __name__ == "__main__":
    main(*sys.argv[1:])
