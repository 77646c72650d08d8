"""The look-ups in one snapshot: hosts of nodes, machines, places of processes, holders of GPUs."""

from __future__ import annotations

import gc
import weakref

from msgspec.structs import replace

from cockpit.model import Amount, Hold, Host, HostMemory, RayProcess, Snapshot
from tests.world import GIB, NOW, OTHER_RAY, gpu, node, process, theirs

W1, W2 = node(1, probed=False), node(2, probed=False)


def host(name, *nodes, address="10.0.0.1", **more):
    return Host(name, (address,), NOW, nodes=tuple(one.id for one in nodes), **more)


def index(*nodes, hosts=(), **more):
    return Snapshot(taken=NOW, nodes=nodes, hosts={one.name: one for one in hosts}, **more).index


# Which host a node runs on


def test_a_node_runs_on_the_host_whose_probe_sees_its_raylet():
    vm = host("vm", W1)
    known = index(W1, W2, hosts=[vm])
    assert (known.host_of(W1), known.host_of(W2)) == (vm, None)
    assert (known.nodes_on(vm), known.node_keys_on(vm)) == ([W1], (W1.key,))


def test_a_host_that_only_claims_a_node_gets_nothing_of_it():
    liar, real = host("liar", W1, W2, address="10.0.0.9"), host("real", W1)
    known = index(W1, hosts=[liar, real], processes=(process(7, host="liar", node=None, gpus=(Hold(0, 1),)),))
    assert known.host_of(W1) == real
    assert W1 not in known.nodes_on(liar)
    assert list(known.gpu_holders) == [("node:liar", 0)]


def test_a_node_without_a_visible_raylet_runs_on_the_host_of_its_probe():
    vm, linked = host("vm"), replace(W1, probe="vm")
    assert index(linked, hosts=[vm]).host_of(linked) == vm


def test_the_address_decides_the_host_of_a_dead_node_only():
    vm, dead = host("vm"), replace(W1, state="DEAD")
    assert index(dead, hosts=[vm]).host_of(dead) == vm
    assert index(W1, hosts=[vm]).host_of(W1) is None
    assert index(dead, hosts=[vm, host("other")]).host_of(dead) is None, "two machines have that address"


def test_a_row_without_a_node_is_a_host_itself():
    vm, bare = host("vm"), node(1, id=None, host="vm", probed=False)
    known = index(bare, hosts=[vm])
    assert (known.host_of(bare), known.nodes_on(vm), known.node_keys_on(vm)) == (vm, [], ("node:vm",))


# Its machine


def test_without_a_probe_the_facts_of_a_machine_are_those_of_rays_agent():
    machine = index(W1).machine(W1)
    assert (machine.seen, machine.gpus, machine.memory) == (W1.agent.seen, W1.agent.gpus, W1.agent.memory)


def test_with_a_probe_only_facts_that_it_lacks_come_from_the_agent():
    vm = host("vm", W1, gpus=(gpu(0), gpu(1)), memory=HostMemory(5, 10), shm=Amount(1, 2))
    bare = node(1, host="vm", probed=True, seen=NOW - 5, **dict.fromkeys(("cpu", "cpus", "memory", "shm", "disks", "gpus")))
    machine = index(bare, hosts=[vm]).machine(bare)
    assert (machine.seen, machine.gpus, machine.memory, machine.shm) == (NOW, vm.gpus, HostMemory(5, 10), Amount(1, 2))
    inside = replace(bare, agent=replace(bare.agent, memory=HostMemory(3, 7), shm=Amount(), given=(gpu(1).uuid,)))
    machine = index(inside, hosts=[vm]).machine(inside)
    assert (machine.gpus, machine.memory, machine.shm) == ((gpu(1),), HostMemory(3, 7), Amount())


def test_its_kill_line_is_that_of_its_own_raylet():
    rays = (RayProcess("raylet", 1, node=W1.id, kill_at=9), RayProcess("raylet", 2, node=W2.id, kill_at=8))
    both = [replace(one, probe="vm", agent=replace(one.agent, memory=None)) for one in (W1, W2)]
    known = index(*both, hosts=[host("vm", W1, W2, rays=rays, memory=HostMemory(5, 10))])
    assert [known.machine(one).memory.kill_at for one in both] == [9, 8]


def test_its_memory_is_counted_as_its_own_raylet_counts_it():
    swap = RayProcess("raylet", 1, node=W1.id, kill_at=18, kill_used=7, kill_total=20)
    isolated = RayProcess("raylet", 2, node=W2.id, kill_at=8, kill_used=3, charged=4, isolation="/c")
    both = [replace(one, probe="vm", agent=replace(one.agent, memory=None)) for one in (W1, W2)]
    known = index(*both, hosts=[host("vm", W1, W2, rays=(swap, isolated), memory=HostMemory(5, 10, shared=1))])
    with_swap, of_workers = (known.machine(one).memory for one in both)
    assert with_swap == HostMemory(7, 20, 18, shared=1, whole=Amount(5, 10))
    assert of_workers == HostMemory(3, 10, 8, shared=1, whole=Amount(5, 10), isolation="/c", charged=4)
    twice = index(both[0], hosts=[host("vm", W1, rays=(swap, replace(swap, pid=3, kill_at=17)), memory=HostMemory(5, 10))])
    assert twice.machine(both[0]).memory == HostMemory(5, 10), "one of them is not its raylet"


def test_gpus_that_nvml_has_not_shown_for_long_are_not_current():
    vm = host("vm", W1, gpus=(gpu(0),), observed={"nvml": NOW - 60})
    bare = node(1, host="vm", probed=True, gpus=None)
    machine = index(bare, hosts=[vm]).machine(bare)
    assert (machine.gpus, machine.gpus_seen, machine.current_gpus) == (vm.gpus, NOW - 60, None)


# Who holds what


def test_the_holders_of_a_gpu_are_all_that_hold_memory_of_it_the_greatest_first():
    small, large = process(1, gpus=(Hold(0, GIB),)), process(2, gpus=(Hold(0, 2 * GIB), Hold(1, None)))
    holders = index(W1, processes=(small, large)).gpu_holders
    assert {place: [one.pid for one, _ in held] for place, held in holders.items()} == {(W1.key, 0): [2, 1], (W1.key, 1): [2]}


def test_a_process_of_another_ray_counts_to_the_followed_rays_node_on_its_host():
    known = index(W1, hosts=[host("node1", W1)], processes=(theirs(7, gpus=(Hold(3, 1),)),))
    assert (known.processes_by_node[W1.key][0].session, list(known.gpu_holders)) == (OTHER_RAY, [(W1.key, 3)])
    assert known.gpus_by_job == {}


def test_a_job_and_an_actor_have_the_gpus_of_all_their_processes_each_once():
    actor = {"job": "02000000", "actor": "a"}
    own = process(1, gpus=(Hold(0, GIB),), **actor), process(2, gpus=(Hold(0, GIB), Hold(1, None)), **actor)
    known = index(W1, processes=own)
    for held in (known.gpus_by_job["02000000"], known.gpus_by_actor["a"]):
        assert (held.places, held.memory) == ({(W1.key, 0), (W1.key, 1)}, 2 * GIB)


# How long it lives


def test_an_index_is_made_once_for_a_snapshot_and_not_taken_over_by_the_next():
    first = Snapshot(nodes=(W1,))
    second = replace(first, nodes=(W2,))
    assert first.index is first.index
    assert list(second.index.nodes) == [W2.id]


def test_a_snapshot_is_freed_with_its_index_and_without_the_garbage_collector():
    gc.disable()
    try:
        snapshot = Snapshot(nodes=(W1,), processes=(process(1, gpus=(Hold(0, 1),)),))
        known = weakref.ref(snapshot.index)
        assert snapshot.index.titles
        assert snapshot.index.gpu_holders
        del snapshot
        assert known() is None
    finally:
        gc.enable()
