"""Writes the preset with which `cockpit recover` restarts the demo's own Ray on this host, and launches a smaller training run."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from cockpit.files.atomic import write_new
from cockpit.presets.schema import EDITOR_SCHEMA

NAME = "demo"
ENTRYPOINT = (
    "python {script} --actor.num_nodes 1 --actor.num_gpus_per_node 2 --ref.num_nodes 1 --ref.num_gpus_per_node 2"
    " --train.colocate_actor_ref --critic.num_nodes 1 --critic.num_gpus_per_node 1 --reward.num_nodes 1 --reward.num_gpus_per_node 1"
    " --vllm.num_engines 2 --vllm.tensor_parallel_size 1 --actor.model_name_or_path Qwen/Qwen2.5-7B-Instruct"
    " --reward.model_name_or_path Qwen/Qwen2.5-7B-Instruct"
)
ABOUT = "The demo's Ray again, as one node of 8 GPUs, and a smaller PPO run. To try recover; it touches nothing but the demo"


def write_preset(folder: Path, python: str, gcs: str, dashboard_port: int, free_ports: Sequence[int], env: Mapping[str, str]) -> None:
    """Write the preset into `folder/presets`. `gcs` is the address of the demo's GCS; `recover` recognizes the demo's Ray by its port.

    `free_ports`: for the client server and the dashboard agent, whose default ports another Ray on this host may use. `env`: has the demo's
    mark, so that processes of the preset end with the demo.
    """
    client, agent = free_ports
    flags = {
        "host": socket.gethostname(),
        "node_ip_address": "127.0.0.1",
        "port": int(gcs.rpartition(":")[2]),
        "num_cpus": 32,
        "num_gpus": 8,
        "object_store_memory": 100 << 20,
        "include_dashboard": True,
        "dashboard_host": "127.0.0.1",
        "dashboard_port": dashboard_port,
        "dashboard_agent_listen_port": agent,
        "ray_client_server_port": client,
        "min_worker_port": 0,
        "max_worker_port": 0,
        "temp_dir": str(folder / "ray"),
        "disable_usage_stats": True,
    }
    preset = {
        "about": ABOUT,
        "ray": {"head": flags, "env": dict(env), "python": python},
        "job": {"entrypoint": ENTRYPOINT.format(script=folder / "jobs" / "train_ppo_ray.py")},
    }
    (folder / "presets").mkdir()
    text = json.dumps(preset, indent=2)  # JSON is YAML
    write_new(folder / "presets" / f"{NAME}.yaml", f"{EDITOR_SCHEMA.modeline('../')}{text}\n")
    EDITOR_SCHEMA.write_if_possible(folder)
