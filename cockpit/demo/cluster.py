"""A real Ray of two nodes on this machine, sixteen simulated GPUs, a training run and some trouble."""

from __future__ import annotations

import importlib.util
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

import httpx
import msgspec
import platformdirs

from cockpit import output
from cockpit.demo import nvml, processes
from cockpit.demo.preset import write_preset
from cockpit.presets.folder import DEMO_FOLDER

SCRIPTS = Path(__file__).with_name("scripts")
NODES = ("head", "w1")
START_TIMEOUT_S = 60.0
"""Seconds for the nodes to start, and again for the dashboard to take jobs."""
JOBS = {
    "prepare-data": "python prepare_data.py --dataset openai/gsm8k",
    "eval-gsm8k": "python evaluate.py --model Qwen/Qwen2.5-7B-Instruct --engines 1",
    "ppo-7b": "python train_ppo_ray.py --actor.num_nodes 1 --actor.num_gpus_per_node 4 --ref.num_nodes 1 --ref.num_gpus_per_node 4"
    " --train.colocate_actor_ref --critic.num_nodes 1 --critic.num_gpus_per_node 2 --reward.num_nodes 1 --reward.num_gpus_per_node 2"
    " --vllm.num_engines 4 --vllm.tensor_parallel_size 1 --actor.model_name_or_path Qwen/Qwen2.5-7B-Instruct"
    " --reward.model_name_or_path Qwen/Qwen2.5-7B-Instruct",
    "rm-72b": "python train_rm_ray.py --model Qwen/Qwen2.5-72B --gpus_per_node 8",
}


class DemoError(Exception):
    """The demo can't be; its text is one sentence for a person."""


class DemoCluster(msgspec.Struct, frozen=True):
    """A running demo."""

    address: str
    """Of Ray's dashboard."""
    env: Mapping[str, str]
    """What a program needs in its environment, beside its own, to see this cluster and the GPUs of its head node."""
    folder: Path
    """Everything that the demo wrote; it goes with the demo."""
    session: Path
    """Ray's session folder."""

    def submit(self, name: str, entrypoint: str) -> None:
        """Submit a job; waits for the dashboard to be ready for one."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._is_submitted(name, entrypoint):
            if time.monotonic() > deadline:
                raise DemoError(f"Ray's dashboard did not accept the job {name} in {START_TIMEOUT_S:.0f} s")
            time.sleep(0.5)

    def _is_submitted(self, name: str, entrypoint: str) -> bool:
        """Not at once: the dashboard's modules and the agents come one by one. An answer that came too late may have been a yes."""
        with suppress(httpx.HTTPError):
            if self._http("POST", "/api/jobs/", json={"entrypoint": entrypoint, "submission_id": name}).is_success:
                return True
            return self._http("GET", f"/api/jobs/{name}").is_success
        return False

    def _http(self, method: str, path: str, json: object = None) -> httpx.Response:
        return httpx.request(method, self.address + path, json=json, timeout=10, trust_env=False)


@contextmanager
def demo_cluster(hear: Callable[[str], None] = lambda _: None) -> Iterator[DemoCluster]:
    """A demo cluster with its jobs submitted, for as long as the context lasts. `hear` is told each step of its start, in a sentence.

    Whatever way it ends, and also if it fails half-way, it takes with it exactly what it started. It works beside another Ray and beside
    another demo. If this process is killed outright, the one that keeps the nodes sees it and cleans up in its place.
    """
    python = ray_python()
    folder = Path(tempfile.mkdtemp(prefix="cockpit-demo-", dir=_short_temp()))
    try:
        yield from _start(python, folder, hear)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_demo(open_screen: Callable[[str, dict[str, str]], object]) -> int:
    """Start a demo, open the screen on it, and end it; returns the exit status.

    While it runs, this process's environment leads to the demo, so that whatever the screen starts sees its simulated GPUs.
    """
    before = dict(os.environ)
    try:
        with ending_on_signals(), demo_cluster(_say_step) as demo:
            os.environ.update(demo.env)
            open_screen(demo.address, dict(os.environ))
    except DemoError as error:
        output.note(f"demo: {error}")
        return 3
    finally:
        os.environ.clear()
        os.environ.update(before)
    return 0


def _say_step(text: str) -> None:
    output.say(f"demo: {text}", err=True)


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind the stack as ctrl+c does, so that what is open is closed."""

    def leave(number: int, _: FrameType | None) -> NoReturn:
        for again in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(again, signal.SIG_IGN)  # the way out is not interrupted
        sys.exit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ray_python() -> str:
    """The Python that has Ray: the one that runs cockpit."""
    if importlib.util.find_spec("ray"):
        return sys.executable
    raise DemoError("the demo needs Ray in the same environment as cockpit: pip install 'ray[default]'")


def _start(python: str, folder: Path, hear: Callable[[str], None]) -> Iterator[DemoCluster]:
    hear("building the simulated GPUs")
    gpus = _simulated_gpus(folder)
    port, *metrics = _free_ports(3)
    _copy_scripts(folder)
    hear(f"starting Ray with {len(NODES)} nodes of 8 GPUs: ten seconds to half a minute")
    with (folder / "nodes.log").open("w") as log:
        command = [python, "nodes.py", str(folder), str(port), *(str(folder / f"{node}.nvml") for node in NODES)]
        env = _node_environment(folder, python, metrics) | gpus
        keeper = subprocess.Popen(
            command, cwd=folder / "work", env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
    with keeper:
        try:
            yield _submit_jobs(keeper, folder, f"http://127.0.0.1:{port}", gpus, hear)
        finally:
            processes.end_marked(str(folder))


def _submit_jobs(
    keeper: subprocess.Popen[bytes], folder: Path, address: str, gpus: dict[str, str], hear: Callable[[str], None]
) -> DemoCluster:
    """The demo with all its jobs, once the nodes are up."""
    told = _first_line(keeper, folder)
    session = Path(told["session"])
    port = int(address.rpartition(":")[2])
    write_preset(folder, ray_python(), told["gcs"], port, _free_ports(2), {**_own_variables(folder, _free_ports(2)), **gpus})
    env = {**gpus, "RAY_API_SERVER_ADDRESS": address, DEMO_FOLDER: str(folder / "presets")}
    demo = DemoCluster(address, env, folder, session)
    _leave_stale_session(session.parent)
    hear(f"Ray's dashboard is at {address}; submitting {len(JOBS)} jobs")
    for name, entrypoint in JOBS.items():
        demo.submit(name, entrypoint)
    return demo


def _simulated_gpus(folder: Path) -> dict[str, str]:
    for node in NODES:
        (folder / f"{node}.nvml").write_text("".join(line + "\n" for line in [*nvml.gpus(host=node), "sway 12 45"]))
    try:
        library = nvml.build(platformdirs.user_cache_path("cockpit"))
    except nvml.CompilerError as error:
        raise DemoError(str(error)) from error
    return nvml.environment(library, folder / "head.nvml")


def _copy_scripts(folder: Path) -> None:
    """The folder that the jobs run in."""
    shutil.copytree(SCRIPTS, folder / "work", ignore=shutil.ignore_patterns("__pycache__"))
    for module in (nvml, processes):
        shutil.copy(str(module.__file__), folder / "work")


def _node_environment(folder: Path, python: str, metrics_ports: list[int]) -> dict[str, str]:
    others = ("RAY_", "CUDA_", "PYTHON", "VIRTUAL_ENV")  # of another Ray, another GPU choice, another Python
    env = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    return env | {"PATH": f"{Path(python).parent}:{env.get('PATH', os.defpath)}", **_own_variables(folder, metrics_ports)}


def _own_variables(folder: Path, metrics_ports: list[int]) -> dict[str, str]:
    return {
        "PYTHONDONTWRITEBYTECODE": "1",
        processes.MARK: str(folder),
        "RAY_TMPDIR": str(folder),
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # everything listens on the loopback only
        "RAY_prestart_worker_first_driver": "0",  # 32 CPUs would mean 32 idle workers
        "RAY_enable_worker_prestart": "0",
        "AUTOSCALER_METRIC_PORT": str(metrics_ports[0]),
        "DASHBOARD_METRIC_PORT": str(metrics_ports[1]),
    }


def _first_line(keeper: subprocess.Popen[bytes], folder: Path) -> dict[str, str]:
    """What the keeper says once both nodes are up."""
    assert keeper.stdout is not None  # noqa: S101
    ready, _, _ = select.select([keeper.stdout], [], [], START_TIMEOUT_S)
    line = keeper.stdout.readline() if ready else b""
    if not line:
        said = (folder / "nodes.log").read_text(errors="replace").strip().splitlines()
        raise DemoError(f"Ray did not start in {START_TIMEOUT_S:.0f} s{': ' + said[-1] if said else ''}")
    facts: dict[str, str] = json.loads(line)
    return facts


def _leave_stale_session(temp: Path) -> None:
    """What a Ray that died three weeks ago left behind, a checkpoint among it."""
    session = temp / time.strftime("session_%Y-%m-%d_%H-%M-%S_104729_4242", time.localtime(time.time() - 21 * 86400))
    for name, size in {
        "logs/raylet.out": 4 << 20,
        "logs/gcs_server.out": 1 << 20,
        "runtime_resources/ckpt/global_step40/model.pt": 9 << 20,
    }.items():
        file = session / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"\0" * size)
    (session / "sockets").mkdir()
    for path in [*session.rglob("*"), session]:
        os.utime(path, (time.time() - 21 * 86400,) * 2)


def _short_temp() -> str:
    """Ray's sockets lie below, and a socket's path has at most 107 characters (AF_UNIX)."""
    return "/tmp" if Path("/tmp").is_dir() else tempfile.gettempdir()  # noqa: S108


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
