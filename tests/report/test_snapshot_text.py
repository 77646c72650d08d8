from __future__ import annotations

from unicodedata import category

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.jobs import failed_jobs
from cockpit.model import (
    Amount,
    Bundle,
    Cluster,
    Disk,
    Fault,
    Finding,
    Hold,
    Host,
    HostMemory,
    Job,
    PlacementGroup,
    Quantity,
    RayProcess,
    Remedy,
    Session,
    Snapshot,
)
from cockpit.report.snapshot_text import MAX_ROWS, changes, plain_changes, status_text
from cockpit.report.status import status_of
from tests.report.phase_worlds import lagging, phased
from tests.world import NOW, OTHER_RAY, actor, gpu, node, process, snapshot, theirs

LOOKED_AT = {"node1": Host("node1", processes=())}


def lines(**facts):
    return status_text(snapshot(**facts)).splitlines()


def line(word, **facts):
    return next(line for line in lines(**facts) if word in line)


def test_the_status_is_readable_at_a_glance():
    text = status_text(snapshot())
    for fact in (
        "Ray 2.60.0 at http://10.0.0.1:8265",
        "FAILING SOURCE probe on w7: w7: ssh: connection refused (for 1m40s)",
        "health check failed",
        "2 ALIVE, 1 RESTARTING, 4 PENDING_CREATION",
        "pending: placement group vllm STRICT_PACK 16 x {1 GPU, 1 CPU} for 6m40s: no node has the resources now",
        "pending: 4 x CriticModelActor (PENDING_CREATION) needs 1 GPU: its placement group waits",
        "Orphans: 2 processes holding 80G of GPU memory (0 of",
        "orphan node1 pid 1200 80G on GPU 2,3: python train.py  (its raylet is dead)",
        "Dead sessions: 1, 90G on disk",
        "Jobs: 1 RUNNING, 1 FAILED",
        "RUNNING ppo-7b for 15m00s: python -m openrlhf.cli.train_ppo_ray",
    ):
        assert fact in text


def test_of_many_failed_jobs_the_newest_come_first_each_with_its_reason_and_equal_ones_in_one_line():
    odd = (
        "Ant",
        "Bee",
        "Cat",
        "Dog",
        "Elk",
        "Fox",
        "Gnu",
        "Hen",
        "Ibis",
        "Jay",
        "Kiwi",
        "Lynx",
        "Mole",
        "Newt",
        "Owl",
        "Pug",
        "Rat",
        "Seal",
    )
    texts = [*(f"{name}Error: boom" for name in odd), *(f"ValueError: batch {number} is odd" for number in range(11))]
    jobs = tuple(
        Job(
            f"job{number}", f"{number:08x}", f"job{number}", "FAILED", f"python {number}.py", NOW - 900, NOW - number - 1, text, exit_code=1
        )
        for number, text in enumerate(texts)
    )
    world = snapshot(jobs=jobs, nodes=(), actors=(), placement_groups=(), processes=(), sessions=(), faults=(), findings=())
    lines = status_text(FindingTracker(Limits(), [failed_jobs], assumed=60.0)(world)).splitlines()
    failures = [line for line in lines if line.startswith("WARNING ")]
    assert [line.split("Error")[0].removeprefix("WARNING ") for line in failures] == [*odd, "Value"]
    assert "job job18 and 10 other jobs failed" in failures[-1]


def test_gpus_not_given_to_a_raylet_are_listed_below_the_nodes():
    few = node(1, gpus=tuple(gpu(index) for index in range(8)), resources={"CPU": Quantity(0, 8), "GPU": Quantity(0, 4)})
    raylet = RayProcess("raylet", 5, node=few.id, visible="1,2,4,5", files=100)
    hosts = {"node1": Host("node1", (few.ip,), NOW, nodes=(few.id,), rays=(raylet,))}
    assert line("not given", nodes=(few,), hosts=hosts) == "GPUs not given to Ray: 4 on node1 (0, 3, 6, 7)"
    assert "not given" not in status_text(snapshot(nodes=(few,), hosts={})), "no probe sees its raylet"
    given = [one.given_to_ray for one in status_of(snapshot(nodes=(few,), hosts=hosts)).nodes[0].gpus]
    assert given == [False, True, True, False, True, True, False, False]
    assert {one.given_to_ray for one in status_of(snapshot(nodes=(few,), hosts={})).nodes[0].gpus} == {None}


REASON = "never fits on these nodes: needs 16 GPUs on one node; 2 nodes have 8 each, and no other node could be started"


def test_groups_with_equal_needs_share_a_line_and_a_long_reason_is_written_once():
    def waiting(number, **needs):
        bundles = tuple(Bundle(dict(needs)) for _ in range(4))
        return PlacementGroup(f"{number:036x}", f"g{number}", "PENDING", "PACK", bundles, "02000000", NOW - 60 * number, REASON)

    groups = (
        waiting(1, GPU=1.0, CPU=1.0),
        waiting(2, CPU=1.0, GPU=1.0),
        waiting(3, CPU=1.0, GPU=1.0),
        waiting(4, GPU=1.0, CPU=1.0),
        waiting(5, GPU=2.0),
    )
    actors = [actor(n, state="PENDING_CREATION", class_=f"A{n}", why=f"its placement group waits: {REASON}", wait="group") for n in (1, 2)]
    told = Finding("placement-group-pending", "warning", "job ppo-7b", f"5 groups wait: {REASON}", about=(groups[0].key,))
    text = status_text(snapshot(placement_groups=groups, actors=tuple(actors), findings=(told,)))
    assert text.count(REASON) == 1
    assert (
        "  pending: 4 placement groups g1, g2, g3 and 1 more PACK 4 x {1 GPU, 1 CPU} for 4m00s: see the warning finding on job ppo-7b\n"
        in text
    )
    assert "  pending: placement group g5 PACK 4 x {2 GPUs} for 5m00s: see the warning finding on job ppo-7b\n" in text
    assert "its placement group waits: see the warning finding on job ppo-7b" in text
    plain = status_text(snapshot(placement_groups=groups, actors=tuple(actors), findings=()))
    assert plain.count(REASON) == 1
    assert "  pending: placement group g5 PACK 4 x {2 GPUs} for 5m00s: see group g1\n" in plain


def test_sources_that_fail_for_one_cause_share_a_line():
    faults = tuple(Fault(f"ray.{name}", "nothing listens there", NOW - 5, cause="silent") for name in ("identity", "jobs", "nodes"))
    found = [line for line in lines(faults=faults) if line.startswith("FAILING SOURCE")]
    assert found == ["FAILING SOURCE ray.identity: nothing listens there (for 5s; no new data on: jobs, nodes)"]


@pytest.mark.parametrize(
    ("host", "rays", "state"),
    [
        (node(8, host="w8", id=None, seen=None), None, "not seen"),
        (node(8, host="w8", id=None), None, "no Ray"),
        (node(8, host="w8", id=None, probed=True), (), "no Ray"),
        (node(8, host="w8", id=None, probed=True), (RayProcess("raylet", 1),), "has Ray"),  # it is another Ray's
    ],
)
def test_an_unprobed_host_is_not_said_to_have_no_ray(host, rays, state):
    hosts = {} if rays is None else {"w8": Host("w8", taken=NOW, rays=rays)}
    assert f" {state} " in " ".join(line("w8", nodes=(host,), hosts=hosts).split())


def test_a_node_is_one_aligned_line_and_a_dead_one_has_nothing_reserved_and_says_why_it_died():
    titles, first, dead = line("NODE "), line("node1*"), line("node3")
    for title, value in (("GPUS RESV", "6/8"), ("GPU MEM", "336G/640G"), ("UTIL", "35%"), ("HOST MEM", "700G/1.0T"), ("KILL AT", "950G")):
        assert first[: titles.index(title) + len(title)].split()[-1] == value
    assert "DEAD" in dead
    assert "–/–" in dead
    assert dead.endswith("health check failed")


def test_unknown_is_a_dash_and_never_zero():
    unseen = node(1, probed=False, gpus=None, seen=None, memory=HostMemory(), resources={}, disks=(Disk("/tmp"),), object_store=Amount())
    assert line("node1", nodes=(unseen,)).split()[2:] == ["–/–", "–", "–", "–/–", "–", "–", "–", "–"]
    half = node(1, gpus=(gpu(0, memory_used=None, utilization=None), gpu(1, 40, utilization=50.0)))
    assert line("node1", nodes=(half,)).split()[3:5] == ["40G/80G", "50%"]
    group = PlacementGroup("0123456789abcdef", state="PENDING", bundles=(Bundle({"GPU": 0.5}),))
    assert "group 0123456789ab  1 x {0.5 GPU} for –" in line("group", placement_groups=(group,), actors=())
    assert line("RUNNING x", jobs=(Job("x", status="RUNNING"),)) == "  RUNNING x for –: –"
    assert "Dead sessions: 1" in lines(sessions=(Session(host="node1", name="s", path="/tmp/ray/s", live=False),))


def test_an_empty_snapshot_is_unknown_and_empty_lists_are_none():
    text = status_text(Snapshot(taken=NOW))
    for fact in (
        "Ray's dashboard has not answered yet. Below: what probes report.",
        "Nodes: unknown",
        "Actors: unknown",
        "Jobs: unknown",
    ):
        assert fact in text
    assert "Orphans: unknown (" in text
    assert "none" not in text
    told = lines(actors=(), actor_counts={"ALIVE": 0, "DEAD": 9}, placement_groups=(), processes=(), jobs=(), sessions=())
    assert {"Actors: none", "Jobs: none"} < set(told)
    assert not [row for row in told if "Dead sessions" in row]
    silent = Cluster("http://head:8265", reachable=False)
    assert lines(cluster=silent)[0].startswith("No Ray dashboard answers at http://head:8265")


def test_waiting_actors_of_one_kind_share_a_line_and_lines_are_limited():
    alike = [actor(number, state="PENDING_CREATION", class_="Reward", needs={}) for number in range(500)]
    many = [actor(1000 + number, state="PENDING_CREATION", class_=f"Odd{number}") for number in range(100)]
    waits = [row for row in lines(actors=(*alike, *many), placement_groups=()) if "pending:" in row]
    assert waits[0] == "  pending: 500 x Reward (PENDING_CREATION) needs no resources"
    assert len(waits) == MAX_ROWS
    needs = ({"GPU": 1.0, "CPU": 1.0}, {"CPU": 1.0, "GPU": 1.0})
    pair = tuple(actor(n, state="PENDING_CREATION", needs=each, why="no room") for n, each in enumerate(needs))
    assert line("PENDING_CREATION)", actors=pair, placement_groups=()) == (
        "  pending: 2 x PolicyModelActor (PENDING_CREATION) needs 1 GPU, 1 CPU: no room"
    )
    left = tuple(process(pid, kind="orphan", gpus=(Hold(0, pid << 30),)) for pid in range(1, 60))
    rows = [row for row in lines(processes=left) if row.startswith("  orphan")]
    assert len(rows) == MAX_ROWS
    assert "pid 59 59G on GPU 0" in rows[0], "the largest are listed"


def test_hostile_names_control_nothing():
    text = status_text(snapshot("\x1b]0;x\x07 \u202e\r\nFAULT"))
    assert not {char for char in text if category(char) in ("Cc", "Cf") and char != "\n"}
    assert len(text.splitlines()) == len(status_text(snapshot()).splitlines())


def found(code="gpu-lost", level="critical", since=NOW - 100, **more):
    return Finding(
        code, level, "w1", "GPU 3 of w1 is lost", ("nvidia-smi -q -i 3",), since, Remedy("end what is left", "kill-orphans"), **more
    )


def test_a_finding_is_one_line_above_the_nodes_and_below_it_is_its_remedy_with_the_command():
    told = lines(findings=(found(),))
    place = told.index("CRITICAL GPU 3 of w1 is lost (for 1m40s)")
    assert told[place + 1] == "    -> end what is left (`cockpit kill-orphans`)"
    assert place < next(at for at, line in enumerate(told) if line.startswith("NODE"))


@pytest.mark.parametrize(
    ("jobs", "command"),
    [(("ppo-7b",), "stop-job ppo-7b"), (("a;$(b)",), "stop-job 'a;$(b)'"), (("ppo-7b", "rm-72b"), "stop-job ID")],
)
def test_the_command_of_a_remedy_names_the_job(jobs, command):
    about = (*(f"job:{job}" for job in jobs), "node:x")
    waits = Finding("x", "critical", "x", "it waits", remedy=Remedy("stop it", "stop-job"), about=about)
    assert f"    -> stop it (`cockpit {command}`)" in lines(findings=(waits,), jobs=(*map(Job, jobs), Job("other")))


def test_only_findings_that_start_clear_or_change_are_printed():
    before, now = snapshot(findings=(found(), found("old"))), snapshot(findings=(found(), found("new"), found("old", "warning")))
    begun, worse = list(changes(before, now))
    assert begun.endswith("STARTED CRITICAL GPU 3 of w1 is lost (for 1m40s)")
    assert "NOW WARNING GPU 3 of w1" in worse
    ended = list(changes(now, before))
    assert any("CLEARED CRITICAL GPU 3 of w1 is lost" in line for line in ended)
    assert not list(changes(now, now))


HELD = (Hold(0, 21 << 30),)
BARRED = process(1200, kind="unknown", gpus=HELD, why=("its environment can't be read",))
UNDECIDED = process(1200, kind="unknown", gpus=(), undecided="job")
SILENT = Cluster("http://127.0.0.1:1", reachable=False)
ONLY_RAY_KNOWS = "1 process could not be classified: only its Ray cluster knows whether its job still runs"


@pytest.mark.parametrize(
    ("facts", "orphans"),
    [
        ({"processes": (BARRED,)}, "unknown (1 of 3 hosts probed; 1 process could not be classified)"),
        ({"processes": (process(1200, kind="worker", gpus=HELD),)}, "none (1 of 3 hosts probed)"),
        ({"processes": (BARRED, process(1201, kind="orphan", gpus=HELD))}, "1 process holding 21G of GPU memory (1 of 3 hosts probed; "),
        ({"processes": (UNDECIDED,), "cluster": SILENT}, f"unknown (1 of 3 hosts probed; {ONLY_RAY_KNOWS})"),
        ({"processes": (replace(UNDECIDED, state="Z"),)}, "none ("),
        ({"processes": (), "hosts": {}}, "unknown (0 of 2 hosts probed)"),
    ],
)
def test_orphans_are_unknown_while_hosts_processes_or_their_jobs_are(facts, orphans):
    assert line("Orphans: ", **{"hosts": LOOKED_AT, **facts}).startswith(f"Orphans: {orphans}")


def test_processes_of_other_rays_are_listed_separately():
    held = theirs(7, gpus=(Hold(0, 38 << 30),))
    assert line("Another Ray", processes=(held, theirs(8), process(9, job="02000000"))) == (
        f"Another Ray session on node1: {OTHER_RAY}, 2 processes, holding 38G of GPU memory"
    )
    assert "Another Ray" not in status_text(snapshot())


def test_the_plain_status_has_a_sentence_for_each_node():
    text = status_text(snapshot(), plain=True).splitlines()
    assert "NODE " not in "".join(text)
    told = next(line for line in text if line.startswith("Node node1"))
    assert told.startswith("Node node1 (head): ALIVE, GPUs reserved 6 of 8, GPU memory ")
    assert ", Ray kills workers above " in told
    assert next(line for line in text if line.startswith("Node node3")).startswith("Node node3: DEAD, health check failed")
    assert "–" not in told, "what is not known is not said"


def test_plain_changes_are_printed_once_each():
    before = snapshot()
    now = replace(
        before,
        taken=before.taken + 2,
        nodes=(replace(before.nodes[0], state="DEAD"), *before.nodes[1:]),
        jobs=(replace(before.jobs[0], status="FAILED", ended=before.taken), *before.jobs[1:]),
        actors=tuple(one for one in before.actors if not one.pending),
        faults=(),
        findings=(Finding("gpu-lost", "critical", "GPU 3", "GPU 3 is lost"),),
    )
    told = [line.partition(" ")[2] for line in plain_changes(before, now)]
    assert told[0] == "STARTED CRITICAL GPU 3 is lost"
    assert "CLEARED FAILING SOURCE w7: ssh: connection refused" in told
    assert "node node1 is DEAD, it was ALIVE" in told
    assert "0 actors wait, 4 before" in told
    assert any(line.startswith("job ppo-7b ended: FAILED") for line in told)
    assert list(plain_changes(now, now)) == []


def test_a_running_job_has_a_line_with_its_phase_and_who_waits():
    job, phase = status_text(lagging()).splitlines()[-2:]
    assert job.startswith("  RUNNING ppo-7b")
    assert phase == (
        "    step 412 · training (usual 20s ± 0s) · 30.0 steps/h: "
        "7 of 8 PolicyModelActor have waited for 4m00s; node1 GPU 3 (pid 2003) is still in fit"
    )
    assert status_text(phased(activities=())).splitlines()[-1].startswith("  RUNNING"), "nothing is known of what it does"
