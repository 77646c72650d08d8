"""Tests the report of `doctor` (findings, passed checks, missing facts) and its bundle."""

from __future__ import annotations

import json
import os
import stat
import tarfile

import pytest
from msgspec.structs import replace

from cockpit.config.document import abbreviate_home
from cockpit.config.kubernetes import KubernetesPlace
from cockpit.config.settings import Config, config_path
from cockpit.config.slurm import named_allocation
from cockpit.findings import CHECKS, DETECTORS, FindingTracker, Limits
from cockpit.model import Allocation, Cluster, Fault, Hold, Host, HostContainer, RayCluster, Session, Snapshot
from cockpit.report.doctor import describe_reach, doctor_json, doctor_text, run_checks, write_bundle
from tests.world import GIB, NOW, gpu, node, process, snapshot, with_figures

SLURM = named_allocation("42", "gpu[1-2]")
CHECKS_ALWAYS_MADE = [
    check for check in CHECKS if not check.title.startswith(("Slurm", "Kubernetes", "Ports of InfiniBand", "Inference engines"))
]
LOST = node(1, gpus=(gpu(0), gpu(1, fault="fallen off the bus")))


def looked(of: Snapshot) -> tuple[Snapshot, list]:
    judged = FindingTracker(Limits(), DETECTORS, assumed=60.0)(of)
    return judged, run_checks(judged, Limits())


def seen(*nodes, **more):
    """A cluster with a probe on every host."""
    hosts = {
        each.host: Host(each.host, (each.ip,), NOW, gpus=each.agent.gpus, processes=(), nodes=(each.id,), local=each.head) for each in nodes
    }
    calm = {"placement_groups": (), "actors": (), "jobs": (), "demand": (), "processes": (), "faults": (), "sessions": (), "hosts": hosts}
    return snapshot(nodes=nodes, **{**calm, **more})


def idle(number):
    return node(number, gpus=tuple(gpu(index, 0, uuid=f"GPU-{number}-{index}", xids=()) for index in range(8)))


def verdicts(of: Snapshot) -> dict[str, str]:
    return {each.check.title: each.verdict for each in looked(of)[1]}


def sections(of: Snapshot) -> dict[str, list[str]]:
    """The lines of the report by heading."""
    parts = [part.splitlines() for part in doctor_text(*looked(of), Config()).split("\n\n")[1:]]
    return {heading: lines for heading, *lines in parts}


def test_on_a_healthy_and_fully_probed_cluster_every_check_of_one_sample_is_fine():
    told = verdicts(seen(idle(1), idle(2)))
    assert {title for title, verdict in told.items() if verdict != "fine"} == {check.title for check in CHECKS_ALWAYS_MADE if check.watches}
    text = doctor_text(*looked(seen(idle(1), idle(2))), Config())
    assert "2 nodes alive, 2 of 2 hosts probed" in text.splitlines()[0]
    assert "Not fully checked" not in text


def test_findings_come_first_with_evidence_and_remedy():
    left = process(1200, kind="orphan", gpus=(Hold(2, 40 * GIB),), why=("its raylet is dead",))
    lines = doctor_text(*looked(seen(idle(1), processes=(left,))), Config()).splitlines()
    assert lines[3].startswith("WARNING 1 orphan process holds 40G of GPU memory on node1 GPU ")
    assert any("pid 1200" in line and "its raylet is dead" in line for line in lines[4:7])
    assert any(line.startswith("    -> ") and "(`cockpit kill-orphans`)" in line for line in lines)


def test_every_line_about_one_host_has_its_name():
    broken = with_figures(idle(1), gpus=(gpu(0, fault="GPU is lost", xids=()),))
    lines = doctor_text(*looked(seen(broken)), Config()).splitlines()
    about = [line for line in lines[4:] if line.startswith("    ")]
    assert about
    assert [line for line in about if "node1" not in line] == []


def test_a_host_without_a_probe_is_named_and_never_called_fine():
    half = seen(idle(1), idle(2))
    half = replace(half, hosts={"node1": half.hosts["node1"]})
    assert verdicts(half)["GPU memory held by orphan processes"] == verdicts(half)["Number of GPUs: Ray and NVML differ"] == "partly"
    line = "  - Open files of raylets and GCS: ok as far as checked; not checked: no process list from node2"
    assert line in sections(half)["Not fully checked:"]
    assert verdicts(replace(half, hosts={}))["GPU memory held by orphan processes"] == "unknown"
    left = process(1200, kind="orphan", gpus=(Hold(2, 40 * GIB),))
    line = "  - GPU memory held by orphan processes: found, see above; not checked: no process list from node2"
    assert line in sections(replace(half, processes=(left,)))["Not fully checked:"]


@pytest.mark.parametrize(
    ("lacking", "title"),
    [
        ({"nodes": (idle(1), replace(idle(2), state="DEAD")), "demand": None}, "Memory in use on GPUs that Ray counts as free"),
        ({"nodes": (with_figures(idle(1), gpus=None),), "hosts": {}}, "Number of GPUs: Ray and NVML differ"),
        ({"nodes": None}, "Host memory near Ray's kill line"),
        ({"nodes": (replace(idle(1), id=None),)}, "Dead, missing and silent nodes"),
        ({"jobs": None}, "GPUs held by jobs that have ended"),
        ({"cluster": Cluster("http://head:8265", reachable=False), "hosts": {}}, "Workers killed out of memory (OOM)"),
        ({"cluster": Cluster("http://head:8265", reachable=False)}, "Authentication"),
        ({"cluster": Cluster("http://head:8265", reachable=False), "actors": None}, "Pending actors"),
        ({"cluster": Cluster("http://head:8265", reachable=False), "jobs": None}, "Pending and failed jobs"),
    ],
)
def test_without_its_facts_a_check_is_unknown(lacking, title):
    of = replace(seen(idle(1)), **lacking)
    assert verdicts(of)[title] == "unknown"
    assert any(line.startswith(f"  - {title}: not checked: ") for line in sections(of)["Not fully checked:"])


def test_failing_sources_and_unreachable_hosts_are_listed():
    silent = tuple(Fault(f"ray.{name}", "nothing listens there", NOW, cause="silent") for name in ("jobs", "identity"))
    assert "  - ray.identity: nothing listens there; no new data on: jobs\n" in doctor_text(*looked(seen(idle(1), faults=silent)), Config())
    text = doctor_text(*looked(seen(idle(1), faults=(Fault("probe", "w9: ssh: connection refused", NOW, "w9"),))), Config())
    assert "Failing sources and old data:\n  - probe: w9: ssh: connection refused\n" in text


def test_slurm_is_checked_if_cockpit_knows_a_job():
    asked = seen(idle(1), allocation=Allocation("42", "RUNNING", None, ()))
    assert verdicts(asked)["Slurm: time left, and the state of its nodes"] == "fine"
    silent = seen(idle(1), faults=(Fault("slurm", "squeue: slurm_load_jobs error: Unable to contact slurm controller", NOW),))
    assert "  - Slurm: time left, and the state of its nodes: not checked: Slurm has not answered" in doctor_text(*looked(silent), Config())


def test_kubernetes_is_checked_if_cockpit_knows_a_raycluster_and_a_missing_right_is_named():
    refused = 'Kubernetes refuses it: pods is forbidden: User "x" cannot list resource "pods"'
    asked = seen(idle(1), kubernetes=RayCluster("default", "ray", lacks={"pods": refused}))
    told = verdicts(asked)
    assert told["Kubernetes: RayJobs whose status differs from Ray's"] == "fine"
    assert told["Kubernetes: workers of the RayCluster without a pod"] == "unknown"
    said = f"  - Kubernetes: pods that wait, were killed or are being deleted: not checked: {refused}"
    assert said in doctor_text(*looked(asked), Config()).splitlines()
    silent = seen(idle(1), faults=(Fault("kubernetes", "kubectl: connection refused", NOW),))
    assert "  - Kubernetes: RayJobs whose status differs from Ray's: not checked: Kubernetes has not answered" in doctor_text(
        *looked(silent), Config()
    )


PLACE = KubernetesPlace("default", "ray", "RAY_CLUSTER_NAME", inside=True)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            Config(kubernetes=PLACE, reach=PLACE.reach, origins={"reach": "RAY_CLUSTER_NAME"}),
            "by kubectl exec, into the pods of RayCluster default/ray (RAY_CLUSTER_NAME): probes, and every action, as the user of their",
        ),
        (
            Config(kubernetes=PLACE, reach="ray", origins={"reach": "RAY_CLUSTER_NAME"}),
            "a Ray cluster that runs on this host; with kubectl in PATH also into the pods of RayCluster default/ray. To change it",
        ),
        (
            Config(reach="podman exec -i {name} {python} -", origins={"reach": "config.yaml:2"}),
            "by podman exec, into containers (config.yaml:2): probes, and every action, as the user that the container runs it as",
        ),
        (
            Config(reach="sudo docker exec -i {name} {python} -", origins={"reach": "config.yaml:2"}),
            "by docker exec, into containers (config.yaml:2): probes",
        ),
        (Config(), "by ssh (default): probes, and every action, as the user that it logs in as"),
        (
            Config(slurm=SLURM, reach="srun --jobid=42 {python} -", origins={"reach": "SLURM_JOB_ID"}),
            "by srun, steps of Slurm job 42 (SLURM_JOB_ID): probes, and every action, as you",
        ),
        (
            Config(slurm=SLURM, reach="sshpass -p hunter22 ssh {name} {python} -", origins={"reach": "config.yaml:3"}),
            "by sshpass (config.yaml:3): probes, and every action, as the user that it logs in as",
        ),
        (
            Config(reach="ray", origins={"reach": "config.yaml:3"}),
            "through Ray (config.yaml:3): no probes; actions reach only nodes of a Ray cluster that",
        ),
        (Config(probe_hosts="never"), "by ssh (default): no probes (probe_hosts: never), and every action"),
        (
            Config(readonly=True, origins={"readonly": "--readonly"}),
            "logs in as; cockpit is read-only (--readonly). To change it: `reach` in",
        ),
    ],
)
def test_it_says_how_other_hosts_are_reached_and_where_that_is_set(config: Config, said: str):
    assert said in describe_reach(config)
    assert f"Other hosts: {describe_reach(config)}" in doctor_text(*looked(seen(idle(1))), config).splitlines()
    assert json.loads(doctor_json(*looked(seen(idle(1))), config))["reach"] == describe_reach(config)


def test_in_a_slurm_job_it_says_what_is_unknown_without_root(monkeypatch: pytest.MonkeyPatch):
    config = Config(slurm=SLURM, reach="srun --jobid=42 {python} -", origins={"reach": "SLURM_JOB_ID"})
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert "every action, as you. To change it" in describe_reach(config)
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    said = "as you, without root: other users' processes are shown, but only root can classify and kill them. To change it"
    assert said in describe_reach(config)


def test_a_container_that_is_not_probed_is_named_with_the_command_to_get_in():
    inner = process(1701, kind="unknown", ns_pid=485, container=HostContainer("podman", "train", "ann"))
    text = doctor_text(*looked(seen(idle(1), processes=(inner, replace(inner, pid=1702)))), Config())
    (line,) = [line for line in text.splitlines() if line.startswith("Container ")]
    assert line == (
        "Container train on node1 (podman, user ann): its orphans and its /dev/shm can be seen only from inside. As ann, run "
        '`podman exec -it train cockpit`, or set `hosts: [train]` and `reach: "podman exec -i {name} {python} -"` in '
        f"{abbreviate_home(config_path())}"
    )
    foreign = replace(inner, kind="foreign")
    assert "Container" not in doctor_text(*looked(seen(idle(1), processes=(foreign,))), Config())


ONE_LOOK = "Not checked, because one sample is not enough (`cockpit` and `cockpit status --watch` check it over time):"


def test_checks_that_need_more_than_one_sample_are_listed_once_and_never_as_ok():
    told = sections(seen(idle(1)))
    grows, links, clocks, phases, slower, stalled, hangs, lags, memory, restarts = told[ONE_LOOK]
    assert lags.startswith("  - GPUs that lag behind the others of their group: not checked: a GPU that does far less than the others")
    assert grows == "  - GPU memory that grows: not checked: growth over most of an hour that will fill a GPU"
    assert phases.startswith(
        "  - Jobs that stay in a phase, and ranks behind the others: not checked: a phase that lasts far longer than it ever did"
    )
    assert (
        slower == "  - Steps that take longer than before: not checked: steps, or one phase of them, that take a third longer than before"
    )
    assert stalled == "  - Stalled jobs: not checked: GPUs at 0%, or at 100% with idle power, for many minutes"
    assert hangs.startswith("  - Processes of jobs that hang in the kernel (D state): not checked: processes that wait for minutes")
    part = "ok as far as checked; not checked:"
    assert links == f"  - Links of GPUs: NVLink and PCIe: {part} error counts that grow, and PCIe links that are slow under load"
    assert clocks.startswith(f"  - Power limits and clocks of GPUs: {part} clocks far below those of other busy GPUs")
    assert memory == f"  - Host memory near Ray's kill line: {part} how fast memory grows, and when Ray starts killing workers"
    assert restarts == f"  - Actors in a restart loop: {part} several restarts in the last ten minutes of a longer job"
    checks = json.loads(doctor_json(*looked(seen(idle(1))), Config()))["checks"]
    watched = {check["title"]: check["verdict"] for check in checks if check["watches"]}
    assert {title for title, verdict in watched.items() if verdict == "partly"} == {
        line.removeprefix("  - ").partition(f": {part}")[0] for line in told[ONE_LOOK] if part in line
    }
    assert set(watched.values()) == {"partly", "unknown"}
    for check in CHECKS_ALWAYS_MADE:
        assert sum(line.startswith(f"  - {check.title}") for lines in told.values() for line in lines) == 1


def test_every_detector_belongs_to_one_check():
    names = [detector.__name__ for check in CHECKS for detector in check.detectors]
    assert len(names) == len(set(names)) == len(DETECTORS)
    assert len({check.title for check in CHECKS}) == len(CHECKS)


def test_a_script_gets_every_check_and_the_whole_status():
    told = json.loads(doctor_json(*looked(seen(LOST)), Config()))
    assert {check["title"] for check in told["checks"]} == {check.title for check in CHECKS_ALWAYS_MADE}
    assert [finding["code"] for finding in told["status"]["findings"]]
    assert next(check for check in told["checks"] if "lost" in check["title"])["verdict"] == "found"


@pytest.fixture
def bundle(tmp_path):
    logs = tmp_path / "session" / "logs"
    logs.mkdir(parents=True)
    (logs / "raylet.out").write_text(
        "".join(f"line {number}\n" for number in range(500))
        + "WANDB_API_KEY=0123456789abcdef0123456789abcdef\n"
        + f"-----BEGIN PRIVATE KEY-----\n{'0123456789abcdef' * 4}\n-----END PRIVATE KEY-----\n"
    )
    (logs / "job-driver-x.log").write_text("what a user wrote\n")
    live = Session(host="node1", name="session_1", path=str(tmp_path / "session"), live=True, trusted=True)
    judged, checked = looked(seen(node(1), sessions=(live,)))
    path = tmp_path / "bundle.tar.gz"
    write_bundle(path, judged, checked, Config())
    return path


def test_a_bundle_is_complete_only_its_owner_may_read_it_and_it_overwrites_no_file(bundle):
    assert stat.S_IMODE(os.stat(bundle).st_mode) == 0o600
    with tarfile.open(bundle) as packed:
        names = {name.removeprefix("cockpit-doctor/") for name in packed.getnames()}
        log = packed.extractfile("cockpit-doctor/logs/session_1/raylet.out").read().decode()
    assert names == {"doctor.txt", "status.json", "config.yaml", "versions.txt", "logs/session_1/raylet.out"}
    assert log.splitlines()[0] == "line 304"
    assert "0123456789abcdef" not in log
    with pytest.raises(FileExistsError):
        write_bundle(bundle, *looked(seen(idle(1))), Config())
