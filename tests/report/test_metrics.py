from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import Amount, Cluster, Disk, Fault, Gpu, Host, HostMemory, Job, Snapshot
from cockpit.report import metrics
from cockpit.report.metric_families import FAMILIES
from cockpit.report.metrics import AGE, LEFT_OUT, NewestMetrics, metrics_text
from tests.fakes.shapes import HOSTILE
from tests.report.phase_worlds import JOB, phased
from tests.world import GIB, NOW, actor, engine, finding, gpu, node, process, snapshot

DASHBOARD = Path(__file__).parents[2] / "packaging" / "grafana-dashboard.json"
NASTY = (*HOSTILE, 'quote"quote', "back\\slash", "trailing\\", 'both\\"', "new\nline\\n", "\r\u2028\x85\ud800", 'a{b="c"} 1\n# EOF')


def parse(text):
    """By name and labels; a second sample of the same labels, which Prometheus would refuse, fails."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, *sorted(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def told(**more):
    return parse(metrics_text(snapshot(**more)))


def of(found, name):
    """The samples of one family, by the values of their labels."""
    return {tuple(value for _, value in key[1:]): number for key, number in found.items() if key[0] == name}


def test_every_family_has_a_help_text_and_a_unique_name():
    hosts = {"node1": Host("node1", taken=NOW, processes=())}
    watched = phased()
    more = {"activities": watched.activities, "spans": watched.spans, "steps": watched.steps, "engines": (engine(),)}
    text = metrics_text(snapshot(findings=(finding(),), faults=(Fault("ray.oom", "late", NOW),), hosts=hosts, **more))
    names = [family.name for family in FAMILIES]
    assert len({*names, LEFT_OUT}) == len(names) + 1
    for family in FAMILIES:
        assert not {"job", "instance"} & set(family.labels), "they are Prometheus' own"
        assert f"# HELP {family.name} {family.help}\n# TYPE {family.name} gauge\n{family.name}" in text


def test_numbers_are_those_of_the_snapshot():
    found = told(findings=(finding(), finding(subject="node1"), finding(code="disk-filling", level="warning")))
    assert of(found, "cockpit_status") == {(): 2}
    assert of(found, "cockpit_ray_reachable") == {(): 1}
    assert of(found, "cockpit_look_timestamp_seconds") == {(): NOW}
    assert of(found, "cockpit_nodes") == {("ALIVE",): 2, ("DEAD",): 1, ("UNKNOWN",): 0}
    assert of(found, "cockpit_node_up") == {("node1",): 1, ("node2",): 1, ("node3",): 0}
    assert of(found, "cockpit_node_memory_kill_bytes") == {("node1",): 950 * GIB, ("node2",): 950 * GIB}
    assert of(found, "cockpit_node_cpu_ratio")["node1",] == pytest.approx(0.394)
    assert of(found, "cockpit_node_gpus_reserved") == {("node1",): 6, ("node2",): 6}
    assert of(found, "cockpit_gpu_memory_used_bytes")["0", "node1"] == 70 * GIB
    assert of(found, "cockpit_gpu_utilization_ratio")["7", "node2"] == pytest.approx(0.7)
    assert of(found, "cockpit_disk_total_bytes")["node1", "/tmp/ray"] == 1000 * GIB
    assert of(found, "cockpit_jobs") == {("RUNNING",): 1, ("FAILED",): 1}
    assert of(found, "cockpit_job_state") == {("ppo-7b", "RUNNING"): 1}
    assert of(found, "cockpit_job_gpus_reserved") == {("ppo-7b",): pytest.approx(1.4)}
    assert of(found, "cockpit_findings") == {("critical",): 2, ("warning",): 1, ("info",): 0}
    assert of(found, "cockpit_findings_by_code") == {("gpu-lost", "critical"): 2, ("disk-filling", "warning"): 1}


def test_waiting_things_are_counted_by_reason():
    pending = [actor(number, state="PENDING_CREATION", wait=wait) for number, wait in enumerate(("held", "held", None), 2)]
    waiting = of(told(actors=(actor(1), *pending)), "cockpit_waiting")
    assert {key: number for key, number in waiting.items() if number} == {
        ("actor", "held"): 2,
        ("actor", "unknown"): 1,
        ("placement_group", "held"): 1,
    }
    assert waiting["actor", "never"] == 0
    cut = of(told(actors_complete=False), "cockpit_waiting")
    assert {kind for kind, _ in cut} == {"placement_group"}, "of a list that Ray has cut it isn't known how many wait"


def test_orphans_are_counted_on_probed_hosts():
    hosts = {"node1": Host("node1", taken=NOW, processes=(process(2, kind="unknown"),)), "node2": Host("node2", taken=NOW, processes=None)}
    judged = (
        process(1, kind="orphan"),
        process(2, kind="orphan"),
        process(3, kind="unknown"),
        process(4),
        process(5, kind="stale", host="x"),
    )
    found = told(hosts=hosts, processes=judged)
    assert of(found, "cockpit_processes") == {("node1", "orphan"): 2, ("node1", "stale"): 0, ("node1", "unknown"): 1}


def test_unknown_values_have_no_sample():
    assert set(parse(metrics_text(Snapshot(taken=NOW)))) == {("cockpit_look_timestamp_seconds",), ("cockpit_status",)}
    blind = node(1, cpu=None, memory=HostMemory(), object_store=Amount(), shm=Amount(), disks=(Disk("/"),), gpus=(Gpu(0),), resources={})
    found = told(nodes=(blind,), actors=None, placement_groups=None, jobs=None, actor_counts=None, hosts={}, faults=())
    names = {key[0] for key in found}
    assert "cockpit_node_up" in names
    for kind in ("gpu", "disk", "job", "actors", "waiting", "processes", "node_cpu", "node_memory", "node_gpus", "node_shm", "node_object"):
        assert not [name for name in names if name.startswith(f"cockpit_{kind}")], kind
    for number in (math.nan, math.inf, -math.inf):
        assert of(told(nodes=(node(1, cpu=number),)), "cockpit_node_cpu_ratio") == {}


def test_a_silent_ray_has_no_counts_of_nodes_and_findings():
    found = told(cluster=Cluster("http://10.0.0.1:8265", reachable=False), nodes=(node(1, id=None),), sessions=(), hosts={}, findings=())
    assert of(found, "cockpit_ray_reachable") == {(): 0}
    assert of(found, "cockpit_status") == {(): 3}
    for name in ("nodes", "node_up", "findings"):
        assert of(found, f"cockpit_{name}") == {}
    assert of(found, "cockpit_node_memory_used_bytes") == {("node1",): 700 * GIB}, "its probe still tells"


def test_reserved_gpus_are_unknown_while_their_source_fails_and_sources_that_answer_count_no_faults():
    waits = Job("later", "09000000", "later", "PENDING")
    assert of(told(jobs=(waits,), faults=()), "cockpit_job_gpus_reserved") == {("later",): 0}
    assert of(told(jobs=(waits,), faults=(Fault("ray.actors", "late", NOW),)), "cockpit_job_gpus_reserved") == {}
    found = told(faults=(Fault("probe", "a", NOW, "w1"), Fault("probe", "b", NOW, "w2")), as_of={"ray.nodes": NOW, "probe:w3": NOW})
    assert of(found, "cockpit_faults") == {("ray.nodes",): 0, ("probe",): 2}


def test_old_figures_of_a_node_are_left_out_but_not_their_age():
    found = told(nodes=(node(1, seen=NOW - STALE_AFTER_S), node(2, seen=NOW - STALE_AFTER_S - 1)))
    assert set(of(found, "cockpit_node_memory_used_bytes")) == {("node1",)}
    assert of(found, "cockpit_node_age_seconds") == {("node1",): STALE_AFTER_S, ("node2",): STALE_AFTER_S + 1}


def test_nodes_with_equal_names_get_different_labels():
    dead = node(1, state="DEAD", id="d" * 56)
    again, beside = node(1, id="a" * 56), node(1, id="b" * 56)
    assert of(told(nodes=(dead, again)), "cockpit_node_up") == {("node1",): 1}
    assert of(told(nodes=(dead, again, beside)), "cockpit_node_up") == {("node1",): 1, ("node1 bbbbbbbb",): 1}


def test_equal_labels_are_written_once_the_series_of_a_family_are_limited_and_the_others_counted(monkeypatch):
    found = told(nodes=(node(1, gpus=(gpu(0), gpu(0), gpu(1))),))
    assert len(of(found, "cockpit_gpu_memory_used_bytes")) == 2
    assert of(found, LEFT_OUT)["cockpit_gpu_memory_used_bytes",] == 1
    assert ("cockpit_node_up",) not in of(found, LEFT_OUT)
    monkeypatch.setattr(metrics, "MAX_SERIES", 5)
    assert len(of(told(), "cockpit_gpu_memory_used_bytes")) == 5
    assert of(told(), LEFT_OUT)["cockpit_gpu_memory_used_bytes",] == 11


@pytest.mark.parametrize("text", NASTY)
def test_no_name_can_add_a_line(text):
    plain, found = told(), told(text=text)
    assert sorted(key[0] for key in found) == sorted(key[0] for key in plain)
    assert all(len(value) <= metrics.MAX_LABEL and value.isprintable() for key in found for _, value in key[1:])


def test_a_name_shows_no_secret():
    text = metrics_text(snapshot(jobs=(Job("HF_TOKEN=hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567", job="02000000", status="RUNNING"),)))
    assert "cockpit_job_state" in text
    assert "hf_aBcDeF" not in text


def test_a_thousand_hostile_nodes_can_all_be_parsed():
    nodes = tuple(node(number, NASTY[number % len(NASTY)]) for number in range(1, 1001))
    found = parse(metrics_text(snapshot(nodes=nodes, taken=NOW + 0.0)))
    fresh = sum(NOW - one.agent.seen <= STALE_AFTER_S for one in nodes)
    assert len(of(found, "cockpit_node_up")) == 1000
    assert len(of(found, "cockpit_gpu_memory_used_bytes")) == 8 * fresh
    assert of(found, LEFT_OUT) == {}


def test_the_grafana_dashboard_uses_existing_families():
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [one["query"]["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    names = {name for query in asked for name in re.findall(r"cockpit_\w+", query)}
    labels = {family.name: {*family.labels, "instance"} for family in FAMILIES} | {LEFT_OUT: {"family", "instance"}}
    assert names <= labels.keys()
    for query in asked:
        for name, selected in re.findall(r"(cockpit_\w+)\{(.*?)\}", query):
            assert set(re.findall(r"(\w+)=", selected)) <= labels[name], query
    for kind in ("nodes", "gpu_utilization_ratio", "gpu_memory_used_bytes", "node_memory_kill_bytes", "waiting", "findings"):
        assert f"cockpit_{kind}" in names


def test_a_running_job_has_its_phases_and_the_length_of_its_steps():
    found = parse(metrics_text(phased(phase="training", also=("rollout",))))
    assert of(found, "cockpit_job_phase") == {("training", JOB.id): 1, ("rollout", JOB.id): 1}
    assert of(found, "cockpit_job_step_seconds") == {(JOB.id, "last"): 120, (JOB.id, "median"): 120}


def test_an_unknown_phase_and_a_median_of_too_few_steps_have_no_sample():
    found = parse(metrics_text(phased(phase=None, steps=2)))
    assert of(found, "cockpit_job_phase") == {}
    assert of(found, "cockpit_job_step_seconds") == {(JOB.id, "last"): 120}


def test_engines_have_numbers_only_while_these_are_true():
    labels = ("0", "qwen-7b", "node1", "4711", "ppo-7b", "vllm")
    old = engine(9, read=NOW - 60, unanswered=NOW - 50, model=None)
    unknown = engine(10, read=NOW - 60, model=None)
    found = told(engines=(engine(waiting=12), old, unknown))
    assert of(found, "cockpit_engine_up") == {labels: 1, ("0", "", "node1", "9", "ppo-7b", "vllm"): 0}
    assert of(found, "cockpit_engine_requests_waiting") == {labels: 12}
    assert of(found, "cockpit_engine_tokens_per_second") == {labels: 800}
    assert of(found, "cockpit_engine_kv_cache_ratio") == {labels: 0.4}


# Answers to scrapes


def scraped(collector):
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry).decode()


def test_before_the_first_snapshot_a_scrape_gets_nothing():
    assert scraped(NewestMetrics()) == ""


def test_a_scrape_gets_what_a_text_file_has_and_the_age():
    newest = NewestMetrics(clock=lambda: NOW + 3)
    newest.on_snapshot(Snapshot(taken=1.0))
    newest.on_snapshot(snapshot())
    text = scraped(newest)
    assert text.startswith(metrics_text(snapshot()))
    assert of(parse(text), AGE) == {(): 3}


def test_of_a_snapshot_that_is_too_old_only_its_age_is_left():
    newest = NewestMetrics(clock=lambda: NOW + STALE_AFTER_S + 1)
    newest.on_snapshot(snapshot())
    assert parse(scraped(newest)) == {(AGE,): STALE_AFTER_S + 1}


def test_facts_of_a_source_that_is_silent_for_long_are_left_out_and_their_age_stays():
    silent = ("ray.nodes", "ray.status", "ray.jobs", "ray.actors", "ray.placement_groups")
    found = told(as_of=dict.fromkeys(silent, NOW - 600))
    assert of(found, "cockpit_source_age_seconds") == {(source,): 600 for source in silent}
    for name in ("jobs", "job_state", "job_gpus_reserved", "actors", "waiting", "node_gpus_reserved"):
        assert of(told(), f"cockpit_{name}"), name
        assert of(found, f"cockpit_{name}") == {}, name
    assert of(found, "cockpit_node_up") == {("node1",): 1}, "a probe sees its raylet"
    assert of(found, "cockpit_nodes") == {("ALIVE",): 1, ("DEAD",): 0, ("UNKNOWN",): 2}
