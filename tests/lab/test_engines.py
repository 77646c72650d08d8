"""Engines of a real Ray: one that reports through Ray on a host without a probe, and one with a server of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.lab.cluster import Cluster, eventually
from tests.lab.observe import Facts, Watcher, once

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(900)]

ENGINES = """
import http.server, os, subprocess, sys, threading, time
import ray
from ray.util.metrics import Counter, Gauge
ray.init(address="auto", log_to_driver=False)
KEYS = ("engine", "model_name", "ReplicaId")
TAGS = {"engine": "0", "model_name": "tiny", "ReplicaId": ""}

@ray.remote(num_cpus=0, max_concurrency=2)
class RolloutRayActor:
    def __init__(self):
        names = ("vllm_num_requests_running", "vllm_num_requests_waiting", "vllm_kv_cache_usage_perc")
        self.gauges = [Gauge(name, description="as vLLM's RayPrometheusStatLogger", tag_keys=KEYS) for name in names]
        self.tokens = Counter("vllm_generation_tokens", description="as above", tag_keys=KEYS)

    def run(self):
        while True:
            for gauge, value in zip(self.gauges, (4, 12, 0.5)):
                gauge.set(value, tags=TAGS)
            self.tokens.inc(50, tags=TAGS)
            time.sleep(0.5)

LABELS = '{engine="0",model_name="served"}'
METRICS = f"vllm:num_requests_running{LABELS} 3.0\\nvllm:num_preemptions_total{LABELS} 0.0\\n".encode()

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/metrics" else 404)
        self.end_headers()
        self.wfile.write(METRICS)

    def log_message(self, *_):
        pass

@ray.remote(num_cpus=0, max_concurrency=2)
class vLLMHttpServer:
    def launch_server(self):
        self.core = subprocess.Popen(["bash", "-c", "exec -a VLLM::EngineCore sleep 100000"])
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def wait(self):
        time.sleep(100000)

head, other = sys.argv[1:]
rollout = RolloutRayActor.options(resources={f"node:{other}": 0.001}).remote()
served = vLLMHttpServer.options(resources={f"node:{head}": 0.001}).remote()
ray.get(served.launch_server.remote())
ray.get([rollout.run.remote(), served.wait.remote()])
"""


@pytest.fixture
def generating(cluster: Cluster) -> Iterator[Cluster]:
    (cluster.head.tmp / "jobs" / "engines.py").write_text(ENGINES)
    cluster.submit("engines", f"python engines.py {cluster.head.address} {cluster.hosts[1].address}")
    eventually(lambda: cluster.job("engines") == "RUNNING")
    yield cluster
    cluster.stop_jobs()


def engine(now: Facts, by: str) -> Facts:
    found = [each for each in now["engines"] or () if each["by"] == by]
    return found[0] if found else {}


def test_engines_are_seen_through_ray_and_at_their_own_server_until_one_dies(generating: Cluster):
    watcher = Watcher(generating.head)
    try:
        watcher.until(lambda now: engine(now, "node")["running"] == 4 and engine(now, "server")["running"] == 3)
        through_ray, own = engine(watcher.now, "node"), engine(watcher.now, "server")
        assert (through_ray["waiting"], through_ray["kv_cache"], through_ray["model"]) == (12, 0.5, "tiny")
        assert own["model"] == "served"
        assert own["preemptions"] == 0
        nodes = {each["id"]: each["host"] for each in watcher.now["nodes"]}
        assert (nodes[through_ray["node"]], nodes[own["node"]]) == ("w1", "head")
        assert through_ray["job"] == own["job"]
        assert through_ray["actor"] != own["actor"]
        watcher.until(lambda now: 70 < engine(now, "node")["tokens_per_second"] < 130)

        (core,) = generating.head.matching("VLLM::EngineCore")
        os.kill(core.outer.pid, signal.SIGKILL)
        watcher.until(lambda now: engine(now, "server")["ended"])
        watcher.until(lambda now: [each for each in now["findings"] if each["code"] == "engine-dead"])
        (dead,) = (each for each in watcher.now["findings"] if each["code"] == "engine-dead")
        assert "no request to it is answered" in dead["text"]
        assert engine(watcher.now, "node")["ended"] is None
        assert not [each for each in watcher.now["faults"] if each["source"] == "ray.engines"]

        generating.stop_jobs()
        watcher.until(lambda now: now["engines"] == [])
    finally:
        watcher.end()


def test_a_single_sample_has_them_too(generating: Cluster):
    def both() -> bool:
        _, status, _ = once(generating.head)
        return engine(status, "node").get("running") == 4 and engine(status, "server").get("running") == 3

    eventually(both)
