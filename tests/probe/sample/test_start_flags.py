"""The flags of `ray start`, read from command lines of a raylet, a GCS and a dashboard of Ray 2.60."""

from __future__ import annotations

import json

import pytest

from cockpit.probe.sample.raylets import ServiceReader, gcs_address
from cockpit.probe.sample.start_flags import MAX_CHARS, head_flags, raylet_flags
from tests.probe.process_tables import SESSION, gcs, process, raylet, table

RESOURCES = (
    "node:10.0.0.1,1,node:__internal_head__,1,accelerator_type:H100,1,CPU,4,GPU,8,fast_disk,2.5,memory,21,object_store_memory,80000000"
)
RAYLET = (
    "/env/lib/python3.11/site-packages/ray/core/src/ray/raylet/raylet",
    f"--raylet_socket_name={SESSION}/sockets/raylet",
    "--object_manager_port=0",
    "--min_worker_port=20000",
    "--max_worker_port=20900",
    "--node_manager_port=7001",
    "--node_ip_address=10.99.0.1",
    f"--static_resource_list={RESOURCES}",
    "--python_worker_command=/env/bin/python /env/lib/python3.11/site-packages/ray/_private/workers/setup_worker.py --webui=10.99.0.1:8265",
    "--temp_dir=/scratch/ray",
    "--plasma_directory=/dev/shm",
    "--gcs-address=10.99.0.1:6379",
    '--labels={"ray.io/accelerator-type": "H100", "zone": "a"}',
    "--head",
    "--dashboard_agent_command=/env/bin/python -u /env/lib/ray/dashboard/agent.py --grpc-port=0 --listen-port=52400",
)
FLAGS = {
    "node_ip_address": "10.99.0.1", "node_manager_port": "7001", "min_worker_port": "20000", "max_worker_port": "20900",
    "temp_dir": "/scratch/ray", "dashboard_agent_listen_port": "52400", "num_cpus": "4", "num_gpus": "8",
    "object_store_memory": "80000000", "resources": '{"fast_disk": 2.5}', "labels": '{"zone": "a"}', "python": "/env/bin/python",
}  # fmt: skip


def changed(**flags):
    """The command line with other values; `None`: without that flag."""
    kept = [word for word in RAYLET if word[2:].partition("=")[0] not in flags]
    return [*kept, *(f"--{name}={value}" for name, value in flags.items() if value is not None)]


def test_the_flags_of_a_raylet_are_found_in_its_command_line():
    assert raylet_flags(RAYLET) == FLAGS


def test_rays_defaults_are_no_flags():
    usual = changed(
        min_worker_port="10002",
        max_worker_port="19999",
        node_manager_port="0",
        temp_dir="/tmp/ray",
        labels="{}",
        dashboard_agent_command="python agent.py --listen-port=52365",
        static_resource_list="node:10.99.0.1,1.0,CPU,4,memory,1,object_store_memory,80000000",
    )
    assert raylet_flags(usual) == {
        "node_ip_address": "10.99.0.1",
        "num_cpus": "4",
        "num_gpus": "0",
        "object_store_memory": "80000000",
        "python": "/env/bin/python",
    }


@pytest.mark.parametrize(
    "flags",
    [
        {"static_resource_list": "CPU"},
        {"static_resource_list": "CPU,4,x,many"},
        {"labels": "{"},
        {"labels": "[1]"},
        {"labels": '{"a":' * 100_000},
        {"temp_dir": "/" + "x" * MAX_CHARS},
        {"python_worker_command": "python"},
    ],
)
def test_any_command_line_can_be_read(flags):
    json.dumps(raylet_flags(changed(**flags)))
    assert all(len(value) <= MAX_CHARS for value in raylet_flags(changed(**flags)).values())


def test_the_flags_of_a_head_have_the_addresses_of_its_gcs_and_dashboard():
    dashboard = ("python", "/env/lib/python3.11/site-packages/ray/dashboard/dashboard.py", "--host=0.0.0.0", "--port=8300")
    assert head_flags(("gcs_server", "--gcs_server_port=6380"), dashboard) == {
        "port": "6380",
        "dashboard_host": "0.0.0.0",
        "dashboard_port": "8300",
    }
    assert head_flags(("gcs_server", "--gcs_server_port=0"), ()) == {}


def test_flags_are_reported_of_our_own_raylet_and_its_sessions_dashboard(monkeypatch):
    script = "/env/lib/python3.11/site-packages/ray/dashboard/dashboard.py"
    board = process(70, f"python {script} --host=127.0.0.1 --port=8265 --session-dir={SESSION}")
    other = process(71, f"python {script} --host=0.0.0.0 --port=8266 --session-dir=/tmp/ray/session_2025-01-01_00-00-00_000000_1")
    there = table(raylet(), gcs(), other, board)
    monkeypatch.setattr("cockpit.probe.trust.own_uids", lambda: {there[100].details.uid})
    told = ServiceReader().read(there)
    starts = {one.pid: told[one.identity]["start"] for one in there.values() if one.identity in told}
    assert starts == {100: {}, 90: {"port": "6379", "dashboard_host": "127.0.0.1", "dashboard_port": "8265"}}
    monkeypatch.setattr("cockpit.probe.trust.own_uids", lambda: {4242})
    assert {one.get("start") for one in ServiceReader().read(there).values()} == {None}


def test_a_gcs_that_chose_its_own_port_has_no_known_address():
    argv = f"/env/ray/core/src/ray/gcs/gcs_server --log_dir={SESSION}/logs --gcs_server_port={{}} --node-ip-address=127.0.0.1"
    assert gcs_address(process(90, argv.format(6379))) == "127.0.0.1:6379"
    assert gcs_address(process(90, argv.format(0))) is None
