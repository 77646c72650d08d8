"""A real Prometheus reads the demo cluster in both ways: it scrapes `cockpit metrics --listen`, and node_exporter with a text file."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from bench.settled import settle
from cockpit.demo import demo_cluster
from cockpit.report.metrics import AGE
from tests.cli.certificates import make_certificates
from tests.cli.programs import started

DASHBOARD = json.loads((Path(__file__).parents[2] / "packaging/grafana-dashboard.json").read_text())
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
COCKPIT = str(Path(sys.executable).with_name("cockpit"))
EXPORTER = shutil.which("prometheus-node-exporter") or shutil.which("node_exporter")
WITHOUT_DATA = {
    "cockpit_series_left_out": "a family with more than 10,000 series, or two series with the same labels",
    "cockpit_engine_": "an engine with a metrics endpoint: the demo's engines are processes that only hold GPU memory",
}
"""What the demo does not have, and its metrics need."""
STEADY = re.compile(
    r"cockpit_(?:node_(?:up|gpus|gpus_reserved|memory_total_bytes|memory_kill_bytes|object_store_total_bytes|shm_total_bytes)|disk_total_bytes"
    r"|gpu_(?:memory_total_bytes|power_limit_watts)|nodes|ray_info|ray_reachable|jobs|job_state|job_gpus_reserved|actors|waiting|processes)"
)
"""Metrics that do not change while the demo runs."""
DEPENDS_ON_THE_LOOK = re.compile(r"cockpit_(?:findings_by_code|job_phase|job_step_seconds|engine_up|source_age_seconds|faults)")
"""Metrics with other series after one look, which finds less, and does not wait long for logs and engines; a phase lasts seconds."""
Series = tuple[tuple[str, str], ...]

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the demo needs Ray: pip install 'ray[default]'"),
    pytest.mark.skipif(
        not (EXPORTER and shutil.which("prometheus") and shutil.which("promtool") and shutil.which("openssl")),
        reason="needs a real Prometheus: apt install prometheus prometheus-node-exporter openssl",
    ),
    pytest.mark.process,
]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class Prometheus:
    """A running Prometheus, and the text file that node_exporter reads for it."""

    def __init__(self, url: str, text_file: Path, env: Mapping[str, str]) -> None:
        self.url, self.text_file, self._env = url, text_file, env

    def write_text_file(self) -> None:
        """Look once, and wait until Prometheus has read the result."""
        subprocess.run([COCKPIT, "metrics", "--textfile", str(self.text_file)], env=self._env, check=True)
        look = re.search(r"^cockpit_look_timestamp_seconds (.*)$", self.text_file.read_text(), re.MULTILINE)
        assert look is not None
        self.wait_for(f'cockpit_look_timestamp_seconds{{instance="textfile"}} == {look[1]}')

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The series that the query has now."""
        return self._get("query", query=query)

    def ask_range(self, query: str) -> list[dict[str, Any]]:
        """The series of the last minute, as a panel of Grafana asks for them."""
        now = time.time()
        return self._get("query_range", query=query, start=now - 60, end=now, step=1)

    def _get(self, what: str, **words: object) -> list[dict[str, Any]]:
        answer = httpx.get(f"{self.url}/api/v1/{what}", params=words, trust_env=False, timeout=20).json()
        assert answer["status"] == "success", answer
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def wait_for(self, query: str, within: float = 60) -> list[dict[str, Any]]:
        deadline = time.monotonic() + within
        while not (found := self.ask(query)):
            assert time.monotonic() < deadline, query
            time.sleep(0.2)
        return found


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    pems = make_certificates(folder)
    with demo_cluster() as demo, ExitStack() as running:
        assert settle(demo, 150), "the demo did not settle"
        # A host that nobody can reach: a failing source has a panel too.
        env = {**os.environ, **demo.env, "HOME": str(folder), "COCKPIT_HOSTS": "no-such-host.invalid", "COCKPIT_PROBE_HOSTS": "always"}
        ways = {"server": pems / "server.pem", "key": pems / "server.key", "ca": pems / "ca.pem"}
        tls = ["--tls-cert", ways["server"], "--tls-key", ways["key"], "--client-ca", ways["ca"]]
        listening = running.enter_context(started([COCKPIT, "metrics", "--listen", "127.0.0.1:0", *map(str, tls)], env=env))
        url = httpx.URL(listening.stderr.readline().strip().removeprefix("cockpit: metrics: "))

        (folder / "texts").mkdir()
        exporter = f"127.0.0.1:{free_port()}"
        flags = [f"--web.listen-address={exporter}", "--collector.disable-defaults", "--collector.textfile"]
        running.enter_context(started([EXPORTER, *flags, f"--collector.textfile.directory={folder / 'texts'}"]))

        client = {"ca_file": str(pems / "server.pem"), "cert_file": str(pems / "client.pem"), "key_file": str(pems / "client.key")}
        target = f"{url.host}:{url.port}"
        jobs = [
            {"job_name": "listen", "scheme": "https", "tls_config": client, "static_configs": _at(target, "listen")},
            {
                "job_name": "nobody",
                "scheme": "https",
                "tls_config": {"ca_file": client["ca_file"]},
                "static_configs": _at(target, "nobody"),
            },
            {"job_name": "textfile", "static_configs": _at(exporter, "textfile")},
        ]
        config = folder / "prometheus.yml"
        config.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}))
        own = f"127.0.0.1:{free_port()}"
        words = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={own}"]
        with (folder / "log").open("w") as log, subprocess.Popen(words, stdout=log, stderr=log) as server:
            try:
                _wait_until_ready(f"http://{own}", server)
                asked = Prometheus(f"http://{own}", folder / "texts" / "cockpit.prom", env)
                # A step takes 40 s, and one must be seen from its beginning to its end.
                asked.wait_for('cockpit_job_step_seconds{instance="listen",which="median"}', 240)
                deadline = time.monotonic() + 180
                asked.write_text_file()
                while "cockpit_job_step_seconds" not in asked.text_file.read_text():  # a busy Ray's log comes too late for one look
                    assert time.monotonic() < deadline
                    asked.write_text_file()
                yield asked
            finally:
                server.terminate()
                server.wait()
                listening.terminate()
                listening.wait()


def _at(target: str, instance: str) -> list[dict[str, Any]]:
    return [{"targets": [target], "labels": {"instance": instance}}]


def _wait_until_ready(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while server.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/-/ready", trust_env=False).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise AssertionError("Prometheus did not start")


@pytest.mark.parametrize("instance", ["listen", "textfile"])
@pytest.mark.parametrize("query", QUERIES)
def test_every_query_of_the_dashboard_has_data(prometheus: Prometheus, query: str, instance: str):
    if any(name in query for name in WITHOUT_DATA):
        assert prometheus.ask(filled := query.replace("$instance", instance).replace("$node", ".*")) == [], filled
        return
    filled = query.replace("$instance", instance).replace("$node", ".*")
    assert prometheus.wait_for(filled)
    assert prometheus.ask_range(filled)


def test_a_scraper_without_a_certificate_gets_nothing(prometheus: Prometheus):
    up = {one["metric"]["instance"]: one["value"][1] for one in prometheus.wait_for("up")}
    assert up == {"listen": "1", "textfile": "1", "nobody": "0"}
    assert prometheus.ask('{instance="nobody",__name__=~"cockpit_.*"}') == []


def test_both_ways_give_the_same_series_and_values(prometheus: Prometheus):
    def series(instance: str) -> dict[Series, str]:
        found = prometheus.ask(f'{{instance="{instance}",__name__=~"cockpit_.*"}}')
        own = {"instance", "job"}
        return {tuple(sorted(item for item in one["metric"].items() if item[0] not in own)): one["value"][1] for one in found}

    def names(found: Iterable[Series]) -> set[str]:
        return {dict(labels)["__name__"] for labels in found}

    def steady(found: dict[Series, str]) -> dict[Series, str]:
        return {labels: value for labels, value in found.items() if STEADY.fullmatch(dict(labels)["__name__"])}

    deadline = time.monotonic() + 180
    while True:  # an actor of the demo restarts now and then: the two must look at the same time
        prometheus.write_text_file()
        scraped, written = series("listen"), series("textfile")
        if steady(scraped) == steady(written):
            break
        assert time.monotonic() < deadline, set(steady(scraped).items()) ^ set(steady(written).items())
    assert len(steady(scraped)) > 50
    assert {name for name in names(scraped.keys() ^ written.keys()) if not DEPENDS_ON_THE_LOOK.fullmatch(name)} == {AGE}


def test_promtool_finds_no_fault_in_the_text(prometheus: Prometheus):
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=prometheus.text_file.read_text(), capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
