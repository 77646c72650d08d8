"""Hosts, nodes, GPUs and processes may report anything: no detector raises an error, and every sentence makes sense."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.model import (
    Actor,
    AgentReport,
    Amount,
    Cluster,
    CpuLimit,
    Disk,
    Fault,
    Gpu,
    GpuLinks,
    Hold,
    Host,
    HostMemory,
    HttpProxy,
    Job,
    MemoryUser,
    Node,
    OomKill,
    Pointer,
    Process,
    Quantity,
    RayProcess,
    Session,
    ShmUser,
    SocketInterfaces,
    TaskLimit,
    TempDir,
    Xid,
)
from tests.findings.detection import detect
from tests.world import NOW, snapshot

ODD = [-1.0, 0.0, 0.5, 1.0, 95.0, 100.0, 1e6, 1e300, float("nan"), float("inf"), float("-inf")]
FLOATS = st.none() | st.sampled_from(ODD) | st.floats()
WHOLE = st.none() | st.sampled_from([-1, 0, 1, 5, 40 << 30, 80 << 30, 10**30]) | st.integers()
SOME = st.sampled_from([0, 1, 7, 20000, -3, 10**30])
TIMES = st.none() | st.sampled_from([NOW - 9e9, NOW - 600, NOW - 50, NOW, NOW + 1e9, -1.0, 0.0, float("nan"), float("inf"), 1e300])
NAMES = st.sampled_from(["", "w1", "w2", "\x1b[31mred", "x" * 500, "two\nlines", "\u202eevil"])
TEXTS = st.none() | NAMES
IDS = st.sampled_from(["a" * 56, "b" * 56, "c" * 56])
SESSIONS = st.sampled_from(["session_a", "session_b", "", "\x1b"])
PATHS = st.sampled_from(["/tmp/ray", "/tmp/ray/session_latest", "/tmp/ray/ray_current_cluster", "/", "", "/tmp/\x1b/ray"])
YES = st.none() | st.booleans()
AMOUNTS = st.builds(Amount, WHOLE, WHOLE)
MEMORY = st.builds(HostMemory, WHOLE, WHOLE, WHOLE, WHOLE)
DISKS = st.lists(st.builds(Disk, PATHS, WHOLE, WHOLE), max_size=3).map(tuple)
GPUS = st.none() | st.lists(
    st.builds(
        Gpu, index=st.integers(0, 3) | st.just(1001), uuid=st.sampled_from(["", "GPU-1", "GPU-2"]), name=TEXTS | st.just("NVIDIA H200"),
        utilization=FLOATS, memory_used=WHOLE, memory_total=WHOLE, power=FLOATS, power_limit=FLOATS, temperature=FLOATS, ecc=WHOLE,
        fault=TEXTS, recovery=TEXTS | st.just("drain"), remap=YES, slowed=st.none() | st.lists(NAMES, max_size=2).map(tuple),
        power_default=FLOATS, clock=WHOLE, clock_reasons=WHOLE, links=st.none() | st.builds(GpuLinks, *[WHOLE] * 8),
        xids=st.none() | st.lists(st.builds(Xid, SOME, TIMES, NAMES), max_size=2).map(tuple),
    ), max_size=4,
).map(tuple)  # fmt: skip
HOLDS = st.lists(st.builds(Hold, st.integers(-1, 4), WHOLE), max_size=2).map(tuple)
PROCESSES = st.lists(
    st.builds(
        Process, host=st.sampled_from(["w1", "w2"]), pid=st.integers(1, 4), started=TIMES, ticks=WHOLE, user=TEXTS, command=TEXTS,
        name=TEXTS, state=st.sampled_from([None, "T", "Z", "S"]), rss=WHOLE, gpus=HOLDS, job=st.none() | st.just("01000000"),
        kind=st.sampled_from(["ray", "worker", "driver", "child", "stale", "orphan", "foreign", "unknown"]), actor=st.none() | IDS,
        session=st.none() | SESSIONS, node=st.none() | IDS, why=st.lists(NAMES, max_size=2).map(tuple), shared=WHOLE,
        sockets=st.none() | st.builds(SocketInterfaces, TEXTS, TEXTS, st.lists(NAMES, max_size=2).map(tuple)),
    ), max_size=5, unique_by=lambda process: (process.host, process.pid),
).map(tuple)  # fmt: skip
TASKS = st.lists(st.builds(TaskLimit, st.sampled_from(["user", "cgroup", "threads", "pids"]), WHOLE, WHOLE, TEXTS), max_size=3).map(tuple)
PROXIES = st.none() | st.builds(HttpProxy, NAMES, TEXTS, NAMES | st.sampled_from(["*", "10.0.0.0/8,w1", "1/2", ",,"]))
ADDRESSES = st.none() | st.lists(st.sampled_from(["", "10.0.0.1", "172.17.0.1", "fd00::2", "x\x1b[2J"]), max_size=3).map(tuple)
AROUND = {
    "cpu_limit": st.none() | st.builds(CpuLimit, WHOLE, FLOATS, TEXTS), "locked_memory": WHOLE, "rdma": st.none() | st.just(("mlx5_\x1b",)),
    "kill_at": WHOLE, "kill_used": WHOLE, "kill_total": WHOLE, "charged": WHOLE, "isolation": TEXTS,
    "addresses": ADDRESSES, "network": TEXTS, "loopback_line": TEXTS, "gloo": TEXTS, "proxy": PROXIES,
}  # fmt: skip
RAYS = st.none() | st.lists(
    st.builds(
        RayProcess, st.sampled_from(["raylet", "gcs_server"]), st.integers(1, 4), st.none() | SESSIONS, st.none() | IDS,
        st.sampled_from([None, "T", "Z", "S"]), TEXTS, TEXTS, TEXTS | st.just("0,1,9"), SOME, SOME,
        tasks=st.none() | TASKS, **AROUND,
    ), max_size=3,
).map(tuple)  # fmt: skip


def sessions(host: str) -> st.SearchStrategy[tuple[Session, ...] | None]:
    keeps = st.lists(NAMES, max_size=2).map(tuple)
    facts = {"name": SESSIONS, "path": PATHS, "live": YES, "owner": TEXTS, "size": WHOLE, "keeps": keeps, "dashboard": TEXTS}
    one = st.builds(Session, host=st.just(host), latest=st.booleans(), started=TIMES, stopped=YES, **facts)
    return st.none() | st.lists(one, max_size=3, unique_by=lambda session: session.name).map(tuple)


WROTE = st.dictionaries(st.just("job"), FLOATS.filter(lambda moment: moment is not None), max_size=1)


def hosts(name: str) -> st.SearchStrategy[Host]:
    return st.builds(
        Host, st.just(name), st.sampled_from([(), ("10.0.0.1",)]), TIMES, FLOATS, WHOLE, MEMORY, AMOUNTS, DISKS, GPUS,
        st.none() | st.just(()), st.lists(st.builds(MemoryUser, st.integers(1, 4), SOME, TEXTS, TEXTS), max_size=2).map(tuple),
        sessions(name), st.lists(IDS, max_size=2).map(tuple), RAYS,
        st.none() | st.lists(st.builds(Pointer, PATHS, PATHS, YES), max_size=2, unique_by=lambda pointer: pointer.path).map(tuple),
        st.none() | st.lists(st.builds(TempDir, PATHS, TEXTS, YES), max_size=2, unique_by=lambda temp: temp.path).map(tuple), TEXTS,
        local=st.booleans(), proxy=PROXIES, wrote=st.dictionaries(SESSIONS, WROTE, max_size=2),
        shm_users=st.none() | st.lists(st.builds(ShmUser, TEXTS, SOME), max_size=2).map(tuple),
    )  # fmt: skip


REPORTS = st.builds(
    AgentReport, seen=TIMES, cpu=FLOATS, cpus=WHOLE, memory=st.none() | MEMORY, shm=st.none() | AMOUNTS, shared=WHOLE,
    disks=st.none() | DISKS, gpus=GPUS, given=st.lists(TEXTS.map(str), max_size=2).map(tuple),
)  # fmt: skip
NODES = st.lists(
    st.builds(
        Node, id=st.none() | IDS, host=NAMES, ip=st.sampled_from(["", "10.0.0.1", "10.0.0.2", "127.0.0.1", "172.17.0.1", "w1"]), name=NAMES,
        head=st.booleans(),
        state=st.sampled_from(["ALIVE", "DEAD", "UNKNOWN"]), message=TEXTS, agent=REPORTS, probe=st.none() | NAMES,
        object_store=AMOUNTS, started=TIMES, ended=TIMES,
        resources=st.dictionaries(st.sampled_from(["GPU", "CPU", "object_store_memory"]), st.builds(Quantity, FLOATS, FLOATS)),
        had=st.lists(IDS, max_size=2).map(tuple),
    ), max_size=3, unique_by=lambda node: node.id or node.host,
).map(tuple)  # fmt: skip
KILLS = st.lists(
    st.builds(
        OomKill, st.sampled_from(["ray", "kernel"]), TIMES, WHOLE, TEXTS, st.none() | IDS, TEXTS, st.none() | IDS, TEXTS, WHOLE, NAMES, YES
    ),
    max_size=3,
).map(tuple)
SOURCES = st.sampled_from(["ray.identity", "ray.gcs", "ray.nodes", "ray.status", "ray.jobs", "probe"])
FAULTS = st.lists(
    st.builds(
        Fault, SOURCES, NAMES, st.just(NOW - 90), TEXTS,
        st.sampled_from([None, "silent", "gcs", "monitor", "no token", "wrong token"]),
    ), max_size=3,
).map(tuple)  # fmt: skip
CLUSTERS = st.builds(
    Cluster, st.none() | st.sampled_from(["http://w1:8265", "http://[", ""]), TEXTS | st.sampled_from(["2.44.1", "9999.9999"]),
    st.none() | SESSIONS, st.none(), st.none(), YES,
)  # fmt: skip
AS_OF = st.dictionaries(st.sampled_from(["ray.nodes", "ray.jobs", "ray.actors"]), st.sampled_from([NOW - 90, NOW, NOW + 1e9, 0.0]))
RUNNING = (Job("job", "01000000", "job", "RUNNING", started=NOW - 900),)
ACTORS = (Actor("a" * 56, "Critic", state="ALIVE", job="01000000", node="a" * 56, needs={"GPU": 2.0}),)


@pytest.mark.slow
@settings(max_examples=80)
@given(CLUSTERS, st.none() | NODES, hosts("w1"), hosts("w2"), PROCESSES, st.none() | KILLS, FAULTS, AS_OF)
def test_hostile_hosts_make_no_nonsense(cluster, nodes, first, second, processes, kills, faults, as_of):
    made = snapshot(
        cluster=cluster, nodes=nodes, hosts={"w1": first, "w2": second}, processes=processes, oom_kills=kills, faults=faults, as_of=as_of,
        sessions=(*(first.sessions or ()), *(second.sessions or ())), jobs=RUNNING, actors=ACTORS, placement_groups=(),
    )  # fmt: skip
    found = detect(made, 70)
    for finding in found:
        reported = " ".join((finding.subject, finding.text, *finding.evidence, finding.remedy.text if finding.remedy else ""))
        assert not re.search(r"\b(?:nan|inf|None)\b", reported), finding
        assert len(finding.text) < 3000, finding
        assert finding.since is not None
    assert len({finding.key for finding in found}) == len(found)
