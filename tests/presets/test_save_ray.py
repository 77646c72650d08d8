"""A saved preset describes the start of the followed Ray, and names the unknown parts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.model import Host, Job, RayCluster, RayProcess, Snapshot
from cockpit.presets import RayStart, SlurmStart, read_preset
from cockpit.presets.save import preset_of
from cockpit.presets.save_ray import describe_ray
from tests.world import NOW, node, snapshot

SESSION = "session_2026-11-22_08-06-42_896130_410"
HEAD = {"node_ip_address": "10.0.0.1", "num_cpus": "96", "num_gpus": "8", "object_store_memory": "50000000000", "python": "/env/bin/python"}
WORKER = {**HEAD, "node_ip_address": "10.0.0.2", "resources": '{"fast_disk": 2.0}', "labels": '{"zone": "a"}', "temp_dir": "/scratch/ray"}
GCS = {"port": "6380", "dashboard_host": "0.0.0.0", "dashboard_port": "8300"}


def host(number, start, *more, name=None, **facts):
    ray = RayProcess("raylet", 100, SESSION, node=node(number).id, start=start, gcs="10.0.0.1:6380", **facts)
    return Host(name or f"node{number}", (f"10.0.0.{number}",), NOW, rays=(ray, *more))


def followed(*hosts, nodes=None, **more):
    living = nodes or [node(number + 1, head=number == 0) for number in range(len(hosts))]
    made = snapshot(nodes=tuple(living), hosts={each.name: each for each in hosts}, kubernetes=None, **more)
    return replace(made, cluster=replace(made.cluster, session=SESSION))


HEAD_HOST = host(1, HEAD, RayProcess("gcs_server", 90, SESSION, start=GCS))


def saved(tmp_path, of):
    path = tmp_path / "saved.yaml"
    path.write_text(preset_of(Job("ppo-1", submission="ppo-1", entrypoint="python x.py"), of))
    return read_preset(path), path.read_text()


def test_a_preset_starts_each_node_as_it_was_started(tmp_path):
    preset, text = saved(tmp_path, followed(HEAD_HOST, host(2, WORKER)))
    assert isinstance(preset.ray, RayStart)
    assert preset.ray.python == "/env/bin/python"
    assert preset.ray.head.host == "node1"
    assert preset.ray.head.flags == {
        "node_ip_address": "10.0.0.1",
        "num_cpus": 96,
        "num_gpus": 8,
        "object_store_memory": 50_000_000_000,
        "port": 6380,
        "dashboard_host": "0.0.0.0",
        "dashboard_port": 8300,
    }
    (worker,) = preset.ray.workers
    assert worker.host == "node2"
    assert (worker.flags["resources"], worker.flags["labels"]) == ('{"fast_disk": 2.0}', '{"zone": "a"}')
    assert worker.flags["temp_dir"] == "/scratch/ray"
    assert "no command line shows it: variables of Ray's environment" in " ".join(text.replace("#", "").split())


def test_variables_that_somebody_knows_are_saved():
    assert (describe_ray(followed(HEAD_HOST), {"COCKPIT_DEMO": "/tmp/x"})[0] or {})["env"] == {"COCKPIT_DEMO": "/tmp/x"}
    assert "env" not in (describe_ray(followed(HEAD_HOST))[0] or {})


def test_the_port_of_a_gcs_that_chose_it_itself_is_that_at_which_its_raylet_finds_it(tmp_path):
    preset, _ = saved(tmp_path, followed(host(1, HEAD, RayProcess("gcs_server", 90, SESSION, start={}))))
    assert isinstance(preset.ray, RayStart)
    assert preset.ray.head.flags["port"] == 6380


def notes(of):
    return " ".join(describe_ray(of)[1])


def test_a_worker_of_which_no_probe_has_told_or_that_shares_a_host_is_left_out_and_named(tmp_path):
    world = followed(HEAD_HOST, host(2, None), Host("node3", ("10.0.0.3",), NOW))
    preset, _ = saved(tmp_path, world)
    assert isinstance(preset.ray, RayStart)
    assert preset.ray.workers == ()
    assert "Left out, as no probe has reported how its Ray was started: node2, node3" in notes(world)
    rays = (*(HEAD_HOST.rays or ()), replace((host(2, WORKER).rays or ())[0], pid=200))
    world = followed(replace(HEAD_HOST, rays=rays), nodes=[node(1, head=True), node(2, head=False)])
    preset, _ = saved(tmp_path, world)
    assert isinstance(preset.ray, RayStart)
    assert [each.host for each in preset.ray.nodes] == ["node1"]
    assert "Left out: node2, which runs on the same host as another node (node1)" in notes(world)


def test_where_the_hosts_have_different_pythons_none_is_saved(tmp_path):
    world = followed(HEAD_HOST, host(2, {**WORKER, "python": "/other/python"}))
    preset, _ = saved(tmp_path, world)
    assert isinstance(preset.ray, RayStart)
    assert preset.ray.python is None
    assert "2 different paths" in notes(world)


def test_of_a_slurm_job_no_hosts_are_named(tmp_path):
    gcs = RayProcess("gcs_server", 90, SESSION, start=GCS)
    preset, text = saved(tmp_path, followed(host(1, HEAD, gcs, slurm="42"), host(2, WORKER, slurm="42"), host(3, HEAD, slurm="42")))
    assert isinstance(preset.ray, SlurmStart)
    assert preset.ray.head["port"] == 6380
    assert dict(preset.ray.workers) == {"num_cpus": 96, "num_gpus": 8, "object_store_memory": 50_000_000_000}
    assert "It ran in a Slurm job" in text


@pytest.mark.parametrize(
    ("world", "why"),
    [
        (Snapshot(), "no probe on the head's host has reported it"),
        (followed(host(1, None)), "no probe on the head's host has reported it"),
        (followed(HEAD_HOST, nodes=[node(1, head=False)]), "no probe on the head's host has reported it"),
        (replace(followed(HEAD_HOST), kubernetes=RayCluster("ml", "ray")), "KubeRay starts this Ray"),
    ],
)
def test_where_nobody_knows_how_the_head_was_started_only_the_job_is_saved_and_that_is_said(tmp_path, world, why):
    preset, text = saved(tmp_path, world)
    assert preset.ray is None
    assert preset.job is not None
    assert why in text


def test_what_is_no_value_of_a_flag_is_left_out(tmp_path):
    hostile = {"num_gpus": "many", "num_cpus": "-1", "unknown": "1", "temp_dir": "${HOME}/x", "object_store_memory": "0x10"}
    preset, text = saved(tmp_path, followed(host(1, hostile)))
    assert isinstance(preset.ray, RayStart)
    assert preset.ray.head.flags == {"port": 6380, "temp_dir": "$${HOME}/x"}
    assert "many" not in text
