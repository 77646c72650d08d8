"""No finding outlives its facts: if a source falls silent at any time, no finding that rests on it begins, grows or ends."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cockpit.findings import CHECKS, DETECTORS, FindingTracker, Limits
from cockpit.findings.sources import DECLARED_SOURCES, ON_A_MACHINE, SourceTimes, rests_on, without_old_facts
from cockpit.model import Actor, Amount, Disk, Fault, Finding, Gpu, Hold, Host, HostMemory, Job, Process, Quantity, Snapshot
from tests.findings.detection import codes, detect, only
from tests.world import GIB, NOW, gpu, node, snapshot, with_figures

LISTS = {"ray.nodes": 5.0, "ray.status": 5.0, "ray.actors": 5.0, "ray.placement_groups": 10.0, "ray.jobs": 10.0}
"""Sources of the cluster, and the interval in seconds at which each is asked."""
PACES = {
    "nvml": 2.0,
    "processes": 2.0,
    "memory": 2.0,
    "sessions": 3.0,
    "disks": 10.0,
    "shm": 10.0,
    "rays": 10.0,
    "temps": 10.0,
    "logs": 10.0,
}
"""Sources of a probe, and their intervals in seconds."""
LOOK_S = 4.0
W1, W2 = f"{1:056x}", f"{2:056x}"


def troubled(now: float) -> Snapshot:
    """Two nodes with many kinds of trouble and fresh facts: the first has a probe, the second only Ray's agent."""
    gpus = (
        Gpu(0, "GPU-0", "H100", 0.0, 60 * GIB, 80 * GIB, 90.0, 700.0),
        Gpu(1, "GPU-1", "H100", 0.0, 60 * GIB, 80 * GIB, 90.0, 700.0),
        Gpu(2, "GPU-2", "H100", 0.0, 50 * GIB, 80 * GIB, 90.0, 700.0, ecc=4),
        Gpu(3, "GPU-3", "H100", 0.0, 1 * GIB, 80 * GIB, 90.0, 700.0, fault="GPU is lost"),
    )
    train = [
        Process(host="w1", pid=10 + index, ticks=1, kind="worker", job="02000000", gpus=(Hold(index, 59 * GIB),), node=W1, ours=True)
        for index in (0, 1)
    ]
    orphan = Process(host="w1", pid=30, ticks=1, kind="orphan", gpus=(Hold(2, 49 * GIB),), why=("its raylet is dead",), node=W1)
    processes = (*train, orphan)
    host = Host(
        "w1",
        ("10.0.0.1",),
        now,
        memory=HostMemory(960 * GIB, 1000 * GIB, 950 * GIB),
        shm=Amount(98 * GIB, 100 * GIB),
        disks=(Disk("/tmp/ray", 97 * GIB, 100 * GIB),),
        gpus=gpus,
        processes=processes,
        nodes=(W1,),
    )
    first = node(1, id=W1, host="w1", seen=now, gpus=gpus, memory=host.memory, shm=host.shm, disks=host.disks, probed=True)
    second = node(2, id=W2, host="w2", seen=now, disks=(Disk("/tmp/ray", 97 * GIB, 100 * GIB),), probed=False)
    dead = node(3, id=f"{3:056x}", host="w3", state="DEAD", message="health check failed", seen=now, gpus=None, probed=False, started=NOW)
    waiting = Actor(
        f"{9:032x}", "Critic", "critic", "PENDING_CREATION", "02000000", needs={"GPU": 16}, since=NOW, why="too large", wait="never"
    )
    jobs = (Job("ppo", "02000000", "ppo", "RUNNING", started=NOW), Job("old", "03000000", "old", "FAILED", started=NOW, ended=NOW + 1))
    return snapshot(
        taken=now,
        nodes=(replace(first, resources={"GPU": Quantity(2, 4)}), second, dead),
        hosts={"w1": host},
        processes=processes,
        sessions=(),
        actors=(waiting,),
        placement_groups=(),
        jobs=jobs,
        faults=(),
        findings=(),
    )


def at(now: float, times: Mapping[str, float], agent: float, faults: tuple[Fault, ...]) -> Snapshot:
    """The cluster as known at that moment; each source has facts of its own time."""
    facts = troubled(now)
    host = replace(facts.hosts["w1"], taken=max(times[source] for source in PACES), observed={source: times[source] for source in PACES})
    first, second, dead = facts.nodes or ()
    nodes = (with_figures(first, seen=host.taken), with_figures(second, seen=agent), dead)
    return replace(facts, nodes=nodes, hosts={"w1": host}, as_of={source: times[source] for source in LISTS}, faults=faults)


def last_heard(now: float, pace: float, silent_from: float) -> float:
    """The time of a source's last facts before `now` and before it fell silent, at this interval."""
    until = min(now, silent_from) - NOW
    return NOW + max(0.0, until // pace * pace)


def text_of(finding: Finding) -> str:
    return re.sub(r", as of .* ago$", "", finding.text)


def rests(finding: Finding, gone: str) -> bool:
    if gone == "probe":
        return any(name.startswith("w1 ") for name in finding.sources)
    return {"agent": "w2 agent", **{source: f"w1 {source}" for source in PACES}}.get(gone, gone) in {
        name.replace("node2", "w2") for name in finding.sources
    }


@pytest.mark.slow
@pytest.mark.parametrize("gone", [*LISTS, *PACES, "probe", "agent"])
@settings(max_examples=4)
@given(data=st.data())
def test_findings_of_a_silent_source_neither_begin_grow_nor_end(gone, data):
    silent_from = NOW + data.draw(st.floats(4, 300))
    tells_a_fault = data.draw(st.booleans())
    judge = FindingTracker(Limits(idle_unheard=120.0, store_age=30.0), DETECTORS)
    frozen: dict[str, Finding] | None = None
    looks = [NOW + LOOK_S * step for step in range(int((silent_from - NOW) // LOOK_S) + 12)]
    for now in [*looks, *(looks[-1] + 30.0 * step for step in range(1, 12))]:
        silent = {
            source: silent_from if gone in (source, "probe") and (source in PACES or gone == source) else 1e18
            for source in (*LISTS, *PACES)
        }
        times = {source: last_heard(now, {**LISTS, **PACES}[source], silent[source]) for source in silent}
        agent = last_heard(now, 5.0, silent_from if gone == "agent" else 1e18)
        fails = tells_a_fault and now > silent_from + 3 and gone in LISTS
        found = judge(at(now, times, agent, (Fault(gone, "HTTP 500", silent_from + 3),) if fails else ())).findings
        resting = {finding.key: finding for finding in found if rests(finding, gone)}
        if frozen is not None:
            assert resting.keys() == frozen.keys()
            for key, finding in resting.items():
                before = frozen[key]
                assert (text_of(finding), finding.level, finding.evidence) == (text_of(before), before.level, before.evidence)
                assert finding.since == before.since
                if now - silent_from > 240:
                    assert finding.seen is not None
                    assert (finding.lasted(now) or 0.0) <= silent_from - (finding.since or silent_from) + max(PACES.values()) + LOOK_S
        elif now > silent_from + max(PACES.values()) + LOOK_S:
            frozen = resting  # its next facts, or those of a slower source, are overdue


def test_the_troubled_cluster_has_findings_of_many_kinds():
    judge = FindingTracker(Limits(idle_unheard=120.0, store_age=30.0), DETECTORS)
    for step in range(300):
        now = NOW + 2.0 * step
        found = judge(at(now, {source: last_heard(now, pace, 1e18) for source, pace in {**LISTS, **PACES}.items()}, now, ())).findings
    rested = {source for finding in found for source in finding.sources}
    assert {"disk-full", "gpu-lost", "gpu-memory-orphaned", "host-memory-near-kill", "job-stalled", "node-dead"} <= codes(found)
    assert {"ray.nodes", "ray.jobs", "ray.actors", "w1 nvml", "w1 processes", "w1 memory", "w1 disks"} <= rested


def test_every_detector_declares_its_sources():
    assert [detector.__name__ for detector in DETECTORS if detector not in DECLARED_SOURCES] == []
    assert len(DETECTORS) == sum(len(check.detectors) for check in CHECKS)


def lately(**ages: float) -> Snapshot:
    """Facts of the first node; its probe read each source this many seconds ago."""
    facts = troubled(NOW)
    return replace(facts, hosts={"w1": replace(facts.hosts["w1"], observed={source: NOW - ago for source, ago in ages.items()})})


def fresh(facts: Snapshot) -> Snapshot:
    return without_old_facts(facts, SourceTimes(facts))


def test_with_fresh_facts_the_snapshot_is_the_same_value():
    facts = replace(troubled(NOW), as_of=dict.fromkeys(LISTS, NOW - 3))
    assert fresh(facts) is facts


def test_gpus_and_processes_without_new_facts_become_unknown():
    seen = fresh(lately(nvml=30))
    assert (seen.hosts["w1"].gpus, seen.index.machine(seen.nodes[0]).gpus) == (None, None)
    assert [process.gpus for process in seen.processes] == [(), (), ()]
    assert seen.hosts["w1"].memory == troubled(NOW).hosts["w1"].memory
    assert (seen.nodes[0].host, seen.nodes[0].state) == ("w1", "ALIVE")
    assert fresh(lately(processes=30)).processes == ()


@pytest.mark.parametrize("source", sorted(ON_A_MACHINE))
def test_each_source_of_a_probe_becomes_old_separately(source):
    seen, now = fresh(lately(**{source: 500})).hosts["w1"], troubled(NOW).hosts["w1"]
    other = {"disks": "gpus"}.get(source, "disks")
    assert getattr(seen, other) == getattr(now, other)
    assert seen != now or source in ("sessions", "rays", "temps", "logs"), "the others have no facts there"


@pytest.mark.parametrize(("ago", "fails", "is_known"), [(50, False, True), (70, False, False), (15, True, True), (25, True, False)])
def test_a_failing_list_becomes_old_sooner(ago, fails, is_known):
    faults = (Fault("ray.jobs", "HTTP 500", NOW - 10),) if fails else ()
    seen = fresh(replace(troubled(NOW), as_of={"ray.jobs": NOW - ago}, faults=faults))
    assert (seen.jobs is not None) is is_known


def test_without_the_gcs_or_the_node_list_the_dashboard_proves_nothing():
    lost = replace(troubled(NOW), as_of={"ray.actors": NOW - 1}, faults=(Fault("ray.gcs", "no answer", NOW - 100, cause="gcs"),))
    assert fresh(lost).actors is None
    old = replace(troubled(NOW), as_of={"ray.nodes": NOW - 100})
    assert [one.state for one in fresh(old).nodes] == ["ALIVE", "UNKNOWN", "UNKNOWN"]


def test_a_job_is_not_idle_while_its_other_host_is_unknown():
    def facts(silent: float) -> Snapshot:
        there = Process(host="w2", pid=1, ticks=1, kind="worker", job="02000000", gpus=(Hold(0, 59 * GIB),), node=W2, ours=True)
        other = Host("w2", taken=NOW - silent, processes=(there,), gpus=(gpu(0, utilization=0.0),), nodes=(W2,))
        all_of_it = troubled(NOW)
        nodes = ((all_of_it.nodes or ())[0], node(2, id=W2, host="w2", seen=NOW - silent, gpus=other.gpus, probed=True))
        return replace(
            all_of_it, nodes=nodes, hosts={**all_of_it.hosts, "w2": other}, processes=(*(all_of_it.processes or ()), there), as_of={}
        )

    assert "job-stalled" in codes(detect(facts(0), 2000, idle_unheard=120.0))
    assert "job-stalled" not in codes(detect(facts(300), 2000, idle_unheard=120.0))


def test_a_clock_pauses_while_its_source_is_silent():
    @rests_on("ray.jobs")
    def slow(facts):
        if facts.snapshot.jobs and (lasted := facts.seconds_lasting("slow", "ppo")) >= 100:
            yield Finding("job-slow", "warning", "ppo", f"slow for {lasted:.0f} s")

    judge = FindingTracker(Limits(), (slow,))
    reported = [judge(replace(troubled(NOW + second), as_of={"ray.jobs": min(NOW + second, NOW + 150)})) for second in range(0, 1000, 10)]
    assert only(reported[-1].findings, "job-slow").text == "slow for 150 s, as of 14m00s ago"
    again = [judge(replace(troubled(NOW + second), as_of={"ray.jobs": NOW + second})) for second in range(1000, 1050, 10)]
    assert only(again[-1].findings, "job-slow").text == "slow for 190 s"


def test_a_source_without_a_first_answer_blocks_nothing_once_it_has_answered():
    full = troubled(NOW)
    early = replace(full.hosts["w1"], disks=(), unanswered=("disks",), observed={})
    before = replace(full, hosts={"w1": early})
    later = replace(full.hosts["w1"], taken=NOW + 3, observed={"disks": NOW - 1})
    after = replace(full, taken=NOW + 3, hosts={"w1": later})
    judge = FindingTracker(Limits(), DETECTORS)
    assert "disk-full" not in {finding.code for finding in judge(before).findings if finding.subject.startswith("w1 ")}
    assert "disk-full" in {finding.code for finding in judge(after).findings if finding.subject.startswith("w1 ")}


def test_one_status_with_sources_that_answer_in_turn_has_all_findings():
    once = FindingTracker(Limits(), DETECTORS, assumed=60.0)
    once(troubled(NOW))
    assert "disk-full" in codes(once(replace(troubled(NOW), taken=NOW + 1)).findings)


def test_a_jittering_clock_is_no_news():
    judge = FindingTracker(Limits(), DETECTORS)
    hung = [replace(troubled(NOW), taken=NOW + 2 * look) for look in range(100)]
    for look, facts in enumerate(hung):
        nvml = NOW + 0.3 * (look % 2)
        hung[look] = replace(facts, hosts={"w1": replace(facts.hosts["w1"], taken=facts.taken, observed={"nvml": nvml})})
    reported = [codes(judge(facts).findings) for facts in hung]
    assert "gpu-ecc" in reported[0]
    assert all("gpu-ecc" in found for found in reported), "it neither ends nor begins again"


def test_a_finding_of_a_node_that_has_died_ends():
    def seen(state: str, now: float) -> Snapshot:
        second = with_figures(replace((troubled(now).nodes or ())[1], state=state), seen=min(now, NOW + 10))
        return replace(troubled(now), nodes=((troubled(now).nodes or ())[0], second))

    judge = FindingTracker(Limits(), DETECTORS)
    for look in range(5):
        found = judge(seen("ALIVE", NOW + 2 * look)).findings
    assert "w2 /tmp/ray" in {finding.subject for finding in found}
    for look in range(5, 60):
        found = judge(seen("DEAD", NOW + 2 * look)).findings
    assert "w2 /tmp/ray" not in {finding.subject for finding in found}


def test_a_restarted_node_with_the_same_name_has_its_own_time():
    def seen(now: float) -> Snapshot:
        one, again, _ = troubled(now).nodes or ()
        gone = with_figures(replace(again, id="f" * 56, state="DEAD", started=NOW - 900, ended=NOW - 500), seen=NOW - 500)
        return replace(troubled(now), nodes=(one, again, gone))

    judge = FindingTracker(Limits(), DETECTORS)
    judge(replace(seen(NOW), nodes=(seen(NOW).nodes or ())[::2]))
    found = [finding for look in range(1, 5) for finding in judge(seen(NOW + 3 * look)).findings]
    assert "w2 /tmp/ray" in {finding.subject for finding in found}


def test_an_expensive_source_stays_fresh_longer():
    busy = lately(processes=50)
    host = replace(busy.hosts["w1"], paces={"processes": 30.0})
    assert fresh(replace(busy, hosts={"w1": host})).processes == troubled(NOW).processes
    assert fresh(replace(busy, hosts={"w1": replace(host, observed={"processes": NOW - 100})})).processes == ()
    assert fresh(replace(busy, hosts={"w1": replace(host, observed={"processes": NOW - 2000}, paces={"processes": 1e300})})).processes == ()


def test_a_judgement_during_a_cluster_change_is_not_kept():
    judge: FindingTracker

    @rests_on("disks")
    def leaves(facts):
        judge.forget_findings()
        yield Finding("disk-odd", "warning", "w1", "…", about=(f"node:{W1}",))

    judge = FindingTracker(Limits(), (leaves,))
    judge(troubled(NOW))
    judge._detectors = ()
    hung = replace(troubled(NOW + 5), hosts={"w1": replace(troubled(NOW + 5).hosts["w1"], observed={"disks": NOW})})
    assert judge(hung).findings == ()
