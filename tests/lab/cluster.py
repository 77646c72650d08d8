"""A real Ray on the hosts of a lab, started over SSH as an operator does."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, TypeVar

import httpx
import psutil

from cockpit.demo import nvml
from tests.lab.hosts import Host, Lab, Process

Part = Literal["gcs", "dashboard", "raylet", "agent", "monitor"]
WORDS: dict[Part, tuple[str, ...]] = {
    "gcs": ("gcs/gcs_server",),
    "dashboard": ("dashboard/dashboard.py",),
    "raylet": ("raylet/raylet", "--raylet_socket_name"),
    "agent": ("DashboardAgent",),
    "monitor": ("_private/monitor.py",),
}
OLD_WORDS: dict[Part, tuple[str, ...]] = {**WORDS, "agent": ("dashboard/agent.py",)}
SCRIPTS = Path(__file__).parents[2] / "cockpit" / "demo" / "scripts"
JOBS = Path("/tmp/jobs")
"""Folder on each host that contains the demo's scripts."""
ENV = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_prestart_worker_first_driver": "0",  # 16 CPUs would mean 16 idle workers on two cores
    "RAY_enable_worker_prestart": "0",
    "RAY_raylet_start_wait_time_s": "90",  # a busy machine starts several of them at once
    "RAY_health_check_initial_delay_ms": "2000",  # a killed raylet is dead after 4 s instead of 16
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",  # a frozen one after 20 s instead of 56
    "PYTHONDONTWRITEBYTECODE": "1",
}
Seen = TypeVar("Seen")


def eventually(look: Callable[[], Seen], within: float = 120, every: float = 0.2) -> Seen:
    """Calls `look` until it returns something true, and returns that. An exception for what does not exist yet counts as "not yet"."""
    deadline = time.monotonic() + within
    trouble: Exception | None = None
    while time.monotonic() < deadline:
        try:
            if seen := look():
                return seen
        except (httpx.HTTPError, psutil.Error, OSError, LookupError, ValueError) as error:
            trouble = error
        time.sleep(every)
    raise AssertionError(f"not within {within} s: {look}") from trouble


def start_patiently(start: Callable[[], object], clear: Callable[[], object]) -> None:
    """Ray gives its node 30 s to start (2.60, node.py). A busy machine can take longer: try a second time."""
    try:
        start()
    except AssertionError as error:
        if "timed out during startup" not in str(error):
            raise
        clear()
        start()


class Cluster:
    """One Ray: the first host is its head."""

    def __init__(self, lab: Lab, hosts: Sequence[str], ray: Path, token: str | None = None) -> None:
        """`ray`: the `ray` command to start. With a `token`, the cluster asks for it."""
        self.lab, self.ray, self.token = lab, ray, token
        self.hosts = [lab[name] for name in hosts]
        self.head = self.hosts[0]
        self.address = f"http://{self.head.address}:8265"
        self.gcs_address = f"{self.head.address}:6379"
        self.http = httpx.Client(
            limits=httpx.Limits(max_keepalive_connections=0),  # servers leave idle connections open
            base_url=self.address,
            timeout=60,
            trust_env=False,
            headers={"Authorization": f"Bearer {token}"} if token else {},
        )

    @property
    def env(self) -> dict[str, str]:
        """The environment in which the operator started Ray."""
        auth = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token} if self.token else {"RAY_AUTH_MODE": "disabled"}
        return {**ENV, **auth, "PATH": f"{self.ray.parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}

    def start(self) -> None:
        """Starts Ray on every host and waits until the dashboard reports the GPUs of all hosts."""
        start_patiently(self._start, self.stop)

    def _start(self) -> None:
        for host in self.hosts:
            copy_job_files(host)
        self.command(
            self.head,
            "ray start --head --port=6379 --dashboard-host=0.0.0.0 --dashboard-port=8265 --num-cpus=16 --object-store-memory=100000000"
            " --disable-usage-stats",
        )
        join = f"ray start --address={self.gcs_address} --num-cpus=16 --object-store-memory=100000000 --disable-usage-stats"
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda host: self.command(host, join), self.hosts[1:]))
        eventually(self.complete, within=120)

    def stop(self) -> None:
        """Ends all processes on every host at once."""
        for host in self.hosts:
            for process in host.processes():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.outer.kill()
            shutil.rmtree(host.tmp / "ray", ignore_errors=True)

    def heal(self) -> None:
        """Restores the state after `start`: no frozen or foreign processes, no jobs, idle GPUs. Restarts Ray if a part of it is gone."""
        for host in self.hosts:
            for process in host.processes():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.thaw()
        if self._has_all_parts():
            self.stop_jobs()
            self._end_others()
        else:
            self.stop()
            self.start()
        for host in self.hosts:
            host.reset_gpus()

    def command(self, host: Host, command: str, timeout: float = 120) -> str:
        """The output of an operator's command on a host, in the environment in which Ray was started."""
        exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in self.env.items())
        return host.ssh(f"export {exports}; cd {JOBS}; {command}", timeout=timeout)

    def part(self, part: Part, host: str | None = None) -> Process:
        """The process of a part of Ray; on the head unless `host` is given."""
        on = self.lab[host] if host else self.head
        words = WORDS[part] if on.matching(*WORDS[part]) else OLD_WORDS[part]
        return on.matching(*words)[0]

    def submit(self, name: str, entrypoint: str) -> None:
        """Submits a job. The demo's scripts lie in its working directory."""
        self.http.delete(f"/api/jobs/{name}")  # an earlier test may have used this id; Ray accepts an id only once
        body = {"entrypoint": f"cd {JOBS} && {entrypoint}", "submission_id": name}
        eventually(lambda: self.http.post("/api/jobs/", json=body).is_success)

    def job(self, name: str) -> str:
        """The job's status."""
        status: str = self.http.get(f"/api/jobs/{name}").json()["status"]
        return status

    def stop_jobs(self) -> None:
        """Stops all running jobs and waits until they have ended."""
        running = [job["submission_id"] for job in self.http.get("/api/jobs/").json() if job["status"] in ("PENDING", "RUNNING")]
        for name in filter(None, running):
            self.http.post(f"/api/jobs/{name}/stop")
        eventually(lambda: all(self.job(name) in ("STOPPED", "FAILED", "SUCCEEDED") for name in filter(None, running)))

    def nodes(self) -> list[dict]:
        """The nodes, as the dashboard reports them now."""
        nodes: list[dict] = self.http.get("/nodes", params={"view": "summary", "nocache": 1, "_": time.time_ns()}).json()["data"]["summary"]
        return nodes

    def holders(self, host: Host, gpu: int) -> list[int]:
        """The pids that the node's agent reports for a GPU; the agent looks every 5 s."""
        reported = next(node for node in self.nodes() if node["hostname"] == host.name)
        return [process["pid"] for process in reported["gpus"][gpu]["processesPids"] or ()]

    def complete(self) -> bool:
        """True once the agents of all hosts report their GPUs."""
        alive = [node for node in self.nodes() if node["raylet"]["state"] == "ALIVE"]
        return len(alive) == len(self.hosts) and all(node.get("gpus") for node in alive)

    def _has_all_parts(self) -> bool:
        parts: list[tuple[Part, Host]] = [("gcs", self.head), ("dashboard", self.head), ("monitor", self.head)]
        parts += [(part, host) for host in self.hosts for part in ("raylet", "agent")]  # type: ignore[misc]  # both are Parts
        if not all(host.matching(*WORDS[part]) or host.matching(*OLD_WORDS[part]) for part, host in parts):
            return False
        with contextlib.suppress(AssertionError):
            return eventually(self.complete, within=120)
        return False

    def _end_others(self) -> None:
        """Ends processes that are not Ray's: engines that outlived their actors, processes of tests."""
        of_ray = ("ray::", "ray-dashboard-", "/ray/", "multiprocessing", "ray.util")
        others = [one for host in self.hosts for one in host.processes() if not any(word in one.text for word in of_ray)]
        for process in others:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        eventually(lambda: not any(process.is_alive() for process in others))


def copy_job_files(host: Host) -> None:
    """Copies the files that jobs run to the host."""
    folder = host.tmp / "jobs"
    if not folder.exists():
        shutil.copytree(SCRIPTS, folder, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(str(nvml.__file__), folder)
