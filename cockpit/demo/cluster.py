"""Starts a real Ray with two nodes on this machine, sixteen simulated GPUs, a training run and some faults."""

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

from cockpit.demo import nvml, processes
from cockpit.demo.preset import write_preset
from cockpit.presets.folder import DEMO_FOLDER
from cockpit.text import output

SCRIPTS = Path(__file__).with_name("scripts")
TEMP = "/tmp" if Path("/tmp").is_dir() else tempfile.gettempdir()  # noqa: S108
"""A short path for Ray's sockets: a socket's path has at most 107 characters (AF_UNIX)."""
NODES = ("head", "w1")
START_TIMEOUT_S = 60.0
"""For the start of the nodes, and again until the dashboard accepts jobs."""
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
    """The demo can't run. The text is one sentence."""


class DemoCluster(msgspec.Struct, frozen=True):
    """A running demo."""

    address: str
    """The URL of Ray's dashboard."""
    env: Mapping[str, str]
    """The variables with which a program sees this cluster and the GPUs of its head node."""
    folder: Path
    """The folder of all files of the demo; it is removed at the end."""
    session: Path
    """Ray's session folder."""

    def submit(self, name: str, entrypoint: str) -> None:
        """Submit a job, as soon as the dashboard accepts one: its modules and the agents start one by one. Raises `DemoError`."""
        deadline = time.monotonic() + START_TIMEOUT_S
        job = {"entrypoint": entrypoint, "submission_id": name}
        while time.monotonic() < deadline:
            with suppress(httpx.HTTPError):
                if httpx.post(f"{self.address}/api/jobs/", json=job, timeout=10, trust_env=False).is_success:
                    return
                # If the answer came too late, the submission has still succeeded.
                if httpx.get(f"{self.address}/api/jobs/{name}", timeout=10, trust_env=False).is_success:
                    return
            time.sleep(0.5)
        raise DemoError(f"Ray's dashboard did not accept the job {name} in {START_TIMEOUT_S:.0f} s")


@contextmanager
def demo_cluster(on_step: Callable[[str], None] = lambda _: None) -> Iterator[DemoCluster]:
    """Run a demo cluster with its jobs. `on_step` is called with a sentence about each step of the start.

    At the end, also after a failure, exactly its own processes and files are removed. It can run beside another Ray and another demo. If
    this process is killed, the program that keeps the nodes notices it and cleans up.
    """
    require_ray()
    folder = Path(tempfile.mkdtemp(prefix="cockpit-demo-", dir=TEMP))
    try:
        yield from _start(folder, on_step)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_demo(open_screen: Callable[[str], int]) -> int:
    """Start a demo, open the screen on its dashboard, and end it. Return the exit status, which is the screen's.

    While it runs, the environment of this process points to the demo, so that programs that the screen starts see its simulated GPUs.
    """
    before = dict(os.environ)
    try:
        with ending_on_signals(), demo_cluster(lambda text: output.print_line(f"demo: {text}", err=True)) as demo:
            os.environ.update(demo.env)
            return open_screen(demo.address)
    except DemoError as error:
        output.print_note(f"demo: {error}")
        return 3
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack as ctrl+c does, so that everything is closed."""

    def leave(number: int, _: FrameType | None) -> NoReturn:
        for again in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(again, signal.SIG_IGN)  # nothing interrupts the clean-up
        sys.exit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def require_ray() -> None:
    """Raise `DemoError` if the Python that runs cockpit has no Ray: the demo's programs run in it too."""
    if not importlib.util.find_spec("ray"):
        raise DemoError("the demo needs Ray in the same environment as cockpit: pip install 'ray[default]'")


def _start(folder: Path, on_step: Callable[[str], None]) -> Iterator[DemoCluster]:
    on_step("building the simulated GPUs")
    gpus = make_gpus(folder)
    port, *metrics_ports = _free_ports(3)

    # The jobs run in a copy of the scripts.
    shutil.copytree(SCRIPTS, folder / "jobs", ignore=shutil.ignore_patterns("__pycache__"))
    for module in (nvml, processes):
        shutil.copy(str(module.__file__), folder / "jobs")

    # Without the variables of another Ray, another choice of GPUs, and another Python.
    others = ("RAY_", "CUDA_", "PYTHON", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    env |= {"PATH": f"{Path(sys.executable).parent}:{env.get('PATH', os.defpath)}", **_ray_variables(folder, metrics_ports), **gpus}
    on_step(f"starting Ray with {len(NODES)} nodes of 8 GPUs: ten seconds to half a minute")
    with (folder / "nodes.log").open("w") as log:
        command = [sys.executable, "nodes.py", str(folder), str(port), *(str(folder / f"{node}.nvml") for node in NODES)]
        keeper = subprocess.Popen(
            command, cwd=folder / "jobs", env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
    with keeper:
        try:
            yield _submit_jobs(keeper, folder, port, gpus, on_step)
        finally:
            processes.end_marked(str(folder))


def _submit_jobs(
    keeper: subprocess.Popen[bytes], folder: Path, port: int, gpus: dict[str, str], on_step: Callable[[str], None]
) -> DemoCluster:
    """Wait until the nodes run, write the demo's files, and submit all jobs. Raises `DemoError`."""
    # The keeper writes one line when both nodes run.
    assert keeper.stdout is not None  # noqa: S101
    ready, _, _ = select.select([keeper.stdout], [], [], START_TIMEOUT_S)
    line = keeper.stdout.readline() if ready else b""
    if not line:
        log = (folder / "nodes.log").read_text(errors="replace").strip().splitlines()
        raise DemoError(f"Ray did not start in {START_TIMEOUT_S:.0f} s{': ' + log[-1] if log else ''}")
    facts: dict[str, str] = json.loads(line)

    session, address = Path(facts["session"]), f"http://127.0.0.1:{port}"
    write_preset(folder, sys.executable, facts["gcs"], port, _free_ports(2), {**_ray_variables(folder, _free_ports(2)), **gpus})
    env = {**gpus, "RAY_API_SERVER_ADDRESS": address, DEMO_FOLDER: str(folder / "presets")}
    demo = DemoCluster(address, env, folder, session)
    write_dead_session(session.parent)
    on_step(f"Ray's dashboard is at {address}; submitting {len(JOBS)} jobs")
    for name, entrypoint in JOBS.items():
        demo.submit(name, entrypoint)
    return demo


def make_gpus(folder: Path) -> dict[str, str]:
    """Write the files of the simulated GPUs. Return the variables with which a process sees the GPUs of the head."""
    for node in NODES:
        (folder / f"{node}.nvml").write_text("".join(line + "\n" for line in [*nvml.gpus(host=node), "sway 12 45"]))
    try:
        library = nvml.build(platformdirs.user_cache_path("cockpit"))
    except nvml.CompilerError as error:
        raise DemoError(str(error)) from error
    return nvml.environment(library, folder / "head.nvml")


def _ray_variables(folder: Path, metrics_ports: list[int]) -> dict[str, str]:
    """Return the variables of the demo's Ray."""
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


def write_dead_session(temp: Path) -> None:
    """Write the files of a Ray session that ended three weeks ago, with a checkpoint."""
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


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
