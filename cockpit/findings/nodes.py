"""Detects dead nodes, nodes whose agent no longer reports, and hosts of the config that are not in the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from math import inf

from cockpit.findings.facts import Facts
from cockpit.findings.node_addresses import head_under_same_address
from cockpit.findings.rays_here import is_loopback
from cockpit.findings.sources import rests_on
from cockpit.findings.waiting import join_names
from cockpit.model import LEVELS, Finding, Host, Level, Node, Remedy
from cockpit.text import age, clean, gpus_words, join_first, plural
from cockpit.text.grouping import group_by

MAX_SINGLE_FINDINGS = 20
"""More nodes than this become one finding: a switch or a power supply has failed, not each node by itself."""
RESTART_S = 30.0
"""Seconds by which the successor of a node may have started before its death: Ray needs 16 s to notice that a raylet was killed."""
MARKED_DEAD_S = 10.0
"""Seconds that a raylet marked dead may take to end: it exits when it learns of it."""
SKEWED_CLOCK_S = 10.0
"""Seconds to wait for a silent agent: if only its host's clock is behind, it reports again in this time."""
GCS_PORT = 6379
"""The port of a Ray that was started without --port (2.60, scripts.py)."""
AGENT_COMMANDS = ("ray::DashboardAgent", "/dashboard/agent.py")


@rests_on("ray.nodes")
def dead_nodes(facts: Facts) -> Iterator[Finding]:
    """Nodes that Ray has declared dead, unless a node with the same address has replaced them or the autoscaler removed them."""
    dead = [node for node in facts.snapshot.nodes or () if node.state == "DEAD" and "due to idle" not in (node.message or "")]
    if not dead:
        return
    by_address = group_by((*facts.living_nodes, *dead), lambda node: node.ip)
    lately: list[Node] = []
    before: list[Node] = []
    for node in dead:
        if node.ip and any(_has_replaced(other, node) for other in by_address[node.ip] if other is not node):
            continue
        # Without a known time of death: since the node was first seen dead.
        lasted, died = facts.seconds_lasting("node-dead", node.id or node.host), _death_time(facts, node)
        (lately if (lasted if died is None else facts.now - died) < facts.limits.death_news else before).append(node)

    seen = facts.last_answer_before_fault("ray.nodes")
    if len(lately) > MAX_SINGLE_FINDINGS:
        reasons = "; ".join(f"{reason}: {times}" for reason, times in Counter(map(_reason, lately)).most_common(3))
        text = f"{len(lately)} nodes died ({reasons}){_loss_words(facts, lately)}"
        remedy = "find what they have in common (a switch, a power supply, a scheduler), then start Ray on them again"
        level = min(map(_level, lately), key=LEVELS.index)
        since = min((died for node in lately if (died := _death_time(facts, node)) is not None), default=None)
        lines = _lines(map(_record_line, lately))
        yield facts.cluster_finding(lately, "nodes-dead", level, text, lines, remedy, since=since, seen=seen)
    else:
        names = Counter(node.title for node in (*facts.living_nodes, *lately))
        for node in lately:
            yield _dead_finding(facts, node, facts.title(node) if names[node.title] < 2 else f"{node.title} ({(node.id or '')[:8]})")
    if before:
        ago, are = age(facts.limits.death_news), "is" if len(before) == 1 else "are"
        titles = join_first([facts.title(node) for node in before], 8)
        text = f"{plural(len(before), 'node')} died more than {ago} ago and {are} not back: {titles}"
        remedy = "nothing to do if you do not need them: Ray lists dead nodes until it is restarted"
        yield facts.cluster_finding(before, "nodes-dead-for-long", "info", text, _lines(map(_record_line, before)), remedy, seen=seen)


def _has_replaced(later: Node, dead: Node) -> bool:
    """Whether a later node of the same address replaced the dead node. Otherwise both ran at the same time."""
    if later.started is None or dead.started is None:
        return later.state == "ALIVE"
    return later.started > dead.started and (dead.ended is None or later.started > dead.ended - RESTART_S)


def _death_time(facts: Facts, node: Node) -> float | None:
    """When the node died; `None` if that is unknown, or if the head's clock is far from ours."""
    return min(node.ended, facts.now) if node.ended is not None and 0 < node.ended <= facts.now + 60 else None


def _dead_finding(facts: Facts, node: Node, name: str) -> Finding:
    host, died = _fresh_host(facts, node), _death_time(facts, node)
    head = head_under_same_address(facts, node)
    here = [ray for ray in (host.rays if host else None) or () if ray.role == "raylet" and ray.node == node.id]

    # The raylet may still run although Ray marked the node dead.
    raylet = next((ray for ray in here if ray.node and ray.state not in ("Z", "X")), None)
    if raylet is not None and facts.seconds_lasting("node-marked", node.id or "") < MARKED_DEAD_S:
        raylet = None
    listed = facts.index.processes_by_host.get(host.name, ()) if host and raylet else ()
    processes = [process for process in listed if raylet and process.pid == raylet.pid]

    when = f" {age(facts.now - died)} ago" if died is not None else ""
    text = f"{name} died{when} ({_reason(node)})"
    if raylet is not None:
        stopped = ", stopped by a signal" if raylet.state == "T" else ""
        text = f"Ray marked {name} dead{when} ({_reason(node)}), but its raylet (pid {raylet.pid}{stopped}) still runs there"

    evidence = [_record_line(node)]
    if host is not None and host.rays is not None:
        ps = f"ps on {facts.host_title(host)}"
        evidence += [f"{ps}: raylet (pid {ray.pid}) runs, in state {ray.state or 'unknown'}" for ray in here]
        evidence += [] if here else [f"{ps}: no raylet of that node runs there"]
    if head:
        evidence.append(f"`ip -brief address` on {facts.title(head)}, the head: {node.ip} is an address of that host too")
    names = {node.host, node.name, node.ip, node.title}
    evidence += [f"{fault.host}: {fault.text}" for fault in facts.snapshot.faults if fault.source == "probe" and fault.host in names]
    text += _loss_words(facts, [node])
    remedy = _remedy(facts, node, head, is_running=raylet is not None, can_kill=bool(processes))
    about, seen = (node.key, *(process.key for process in processes)), facts.last_answer_before_fault("ray.nodes")
    return Finding("node-dead", _level(node), name, text, tuple(evidence), died, remedy, about, seen)


def _level(node: Node) -> Level:
    """Ray calls a death expected after SIGTERM, as `ray stop` and schedulers send it, or after a drain.

    An expected death was intended, and matters only if work was lost with it.
    """
    if not (node.message or "").startswith("Expected termination"):
        return "critical"
    return "warning" if node.had else "info"


def _reason(node: Node) -> str:
    words = " ".join((node.message or "").split())[:200]
    return words.removeprefix("Unexpected termination: ").removeprefix("Expected termination: ").rstrip(".") or "no reason given"


def _loss_words(facts: Facts, dead: list[Node]) -> str:
    """GPUs and actors lost with these nodes. The actors of a node are known only if it lived while cockpit watched."""
    gpus = sum(total for node in dead if (has := node.resources.get("GPU")) and 0 < (total := has.total or 0) < inf)
    lost = [actor for node in dead for actor in node.had]
    parts = [gpus_words(gpus)] if gpus else []
    parts += [plural(len(lost), "actor")] if lost else []
    back = 0
    for each in lost:  # those that Ray lists, unless they are alive on a node that is not
        actor = facts.index.actors.get(each)
        home = facts.index.nodes.get(actor.node or "") if actor else None
        back += actor is not None and (actor.state != "ALIVE" or (home is not None and home.state == "ALIVE"))
    again = f"; Ray restarts {back} of these actors" if back else ""
    return f"; lost with {'it' if len(dead) == 1 else 'them'}: {' and '.join(parts)}{again}" if parts else ""


def _fresh_host(facts: Facts, node: Node) -> Host | None:
    """The host of the node, if it is probed now."""
    host = facts.index.host_of(node)
    return host if host in facts.fresh_hosts else None


def _record_line(node: Node) -> str:
    return f"ray list nodes: {(node.id or '')[:12]} {node.title} {node.ip} DEAD: {node.message or 'no reason given'}"


def _remedy(facts: Facts, node: Node, head: Node | None, *, is_running: bool, can_kill: bool) -> Remedy:
    """`head`: the head, if its host has the address of this node too; `is_running`: the raylet still runs."""
    again = f"start Ray there again: {_start_command(facts)}"
    if head:
        text = f"{node.ip}, under which it was registered, is an address of {facts.title(head)}, the head, too: the head asked itself"
        return Remedy(f"{text}; {again} with --node-ip-address= and an address that only that host has")
    wrong = _wrong_address_words(facts, node)
    again = wrong or again
    if is_running:
        return Remedy(f"kill that raylet, which can't rejoin the cluster, and {again}", "kill" if can_kill else None)
    if wrong is not None:
        return Remedy(again)
    if "agent" in (node.message or ""):
        return Remedy(f"read in logs/dashboard_agent.log of its session on {node.title} why the agent ended, then {again}")
    return Remedy(f"check that the host is up, read the end of logs/raylet.out of its session, then {again}")


def _start_command(facts: Facts, flags: str = "") -> str:
    """The command with which a host joins this cluster, with the GCS's address if a raylet's command line shows it."""
    ours = facts.snapshot.cluster.session
    every = (ray for host in facts.fresh_hosts for ray in host.rays or ())
    rays = (ray for ray in every if ray.node in facts.index.nodes or (ours is not None and ray.session == ours))
    seen = next((ray.gcs for ray in rays if ray.gcs), None)
    head = next((node for node in facts.living_nodes if node.head and node.ip), None)
    if seen is None or is_loopback(seen.rpartition(":")[0].strip("[]")):
        host = f"[{head.ip}]" if head and ":" in head.ip else head.ip if head else "HEAD"
        seen = f"{host}:{seen.rpartition(':')[2] if seen else GCS_PORT}"
    return f"`ray start --address={clean(seen)}{flags}`"


def _wrong_address_words(facts: Facts, node: Node) -> str | None:
    """The remedy if the raylet was registered under an address that the head can't reach: started the same way, the node would die again.

    `None`: its address belongs to its host, or the addresses of its host are unknown.
    """
    if node.head or not node.ip or "health check" not in (node.message or ""):
        return None
    host = facts.index.host_of(node) or next((host for name, host in facts.snapshot.hosts.items() if name in (node.host, node.name)), None)
    if not is_loopback(node.ip) and (host is None or not host.addresses or node.ip in host.addresses):
        return None
    own = next((address for address in (host.addresses if host else ()) if not is_loopback(address)), "IP")
    where = f"is no address of {clean(host.name)}" if host and not is_loopback(node.ip) else "leads each host to itself"
    return (
        f"its raylet told the head that it is at {clean(node.ip)}, which {where}: start Ray there with an address that the head reaches: "
        f"{_start_command(facts, f' --node-ip-address={own}')}"
    )


@rests_on("ray.nodes")
def silent_agents(facts: Facts) -> Iterator[Finding]:
    """Living nodes whose figures no longer change although the dashboard answers."""
    asked = facts.snapshot.as_of.get("ray.nodes")
    if asked is None or facts.snapshot.cluster.reachable is False or facts.has_fault("ray.nodes") or facts.has_fault("ray.gcs"):
        return
    least = facts.limits.agent_silent / 2
    reported = [(node, asked - node.agent.seen) for node in facts.living_nodes if node.agent.seen is not None]
    behind = [(node, silent) for node, silent in reported if least <= silent < inf]
    if not behind:
        return
    known = len(reported)
    # The clock of each node runs from the first silence, whether the finding is about this node alone or about many.
    lasted = [facts.seconds_lasting("agent-silent", node.id or node.host) for node, _ in behind]
    late = [pair for pair, held in zip(behind, lasted, strict=True) if held >= SKEWED_CLOCK_S and pair[1] >= facts.limits.agent_silent]
    if len(late) <= MAX_SINGLE_FINDINGS and not 1 < len(late) == known:
        yield from (_silent_finding(facts, node, silent) for node, silent in late)
        return
    text = (
        f"The agents of {len(late)} of {known} nodes have not reported for {age(min(silent for _, silent in late))}, but the dashboard "
        "answers; Ray's numbers for their GPUs and memory are that old"
    )
    lines = _lines(f"/nodes?view=summary: `now` of {facts.title(node)} has not changed" for node, _ in late)
    remedy = (
        "read logs/dashboard.log on the head: the dashboard's node module, or the network between the head and the nodes, does not work"
    )
    yield facts.cluster_finding([node for node, _ in late], "agents-silent", "warning", text, lines, remedy)


def _silent_finding(facts: Facts, node: Node, silent: float) -> Finding:
    # The agent's process, if a probe sees it: a stopped one first.
    name, host = facts.title(node), _fresh_host(facts, node)
    agents = [
        process
        for process in (facts.index.processes_by_host.get(host.name, ()) if host else ())
        if process.ours is not False
        and process.node in (None, node.id)
        and any(words in (process.command or "") for words in AGENT_COMMANDS)
    ]
    agent = min(agents, key=lambda process: process.state != "T", default=None)

    evidence = [f"/nodes?view=summary: `now` of {name} has not changed for {age(silent)}, but Ray lists it as ALIVE"]
    stopped, cure = "", "read logs/dashboard_agent.log there, and check the host's load"
    if agent is not None:
        evidence.append(f"ps on {name}: pid {agent.pid} is in state {agent.state or 'unknown'}: {agent.command or agent.name or ''}")
        if agent.state == "T":
            stopped, cure = f": its process (pid {agent.pid}) is stopped by a signal", f"`kill -CONT {agent.pid}` on {name}"
    doubt = f", or the clock of that node is {age(silent)} behind" if facts.is_single_sample and not stopped else ""
    text = f"Ray's agent on {name} has not reported for {age(silent)}{stopped}{doubt}; Ray's numbers for its GPUs and memory are that old"
    remedy = Remedy(f"{cure}; do not kill the agent: its raylet and all work on the node would end with it")
    about = (node.key, *((agent.key,) if agent else ()))
    return Finding("agent-silent", "info" if doubt else "warning", name, text, tuple(evidence), node.agent.seen, remedy, about)


@rests_on("ray.nodes")
def missing_hosts(facts: Facts) -> Iterator[Finding]:
    """Hosts of the config on which no node of this cluster runs or has run."""
    snapshot = facts.snapshot
    if not snapshot.cluster.reachable or facts.has_fault("ray.nodes") or not facts.living_nodes:
        return
    if snapshot.allocation and snapshot.allocation.lacks:  # the other names of Slurm's nodes are unknown
        return
    # The local host is left out: a cluster elsewhere can be watched from a laptop with a Ray of its own.
    lone = [node for node in snapshot.nodes or () if node.id is None and not ((host := facts.index.host_of(node)) and host.local)]
    missing = [node for node in lone if facts.seconds_lasting("node-missing", node.host) >= facts.limits.node_missing]
    if not missing:
        return

    # The clusters of the raylets on these hosts.
    evidence: list[str] = []
    where, stop = "", ""
    one = len(missing) == 1
    for node in missing[:MAX_SINGLE_FINDINGS]:
        host = facts.index.host_of(node)
        if host is None or host.rays is None:
            evidence.append(f"{node.title}: no probe data")
        elif sessions := [ray.session for ray in host.rays if ray.role == "raylet" and ray.session]:
            evidence.append(f"{node.title}: its raylet belongs to {', '.join(sessions)}")
            if one:
                where, stop = f": its raylet belongs to another cluster ({sessions[0]})", "stop the other Ray there, then "
        else:
            evidence.append(f"{node.title}: no raylet runs there")
    live = plural(len(facts.living_nodes), "live node")
    evidence.append(f"`ray list nodes` lists {live}, but not {'this host' if one else 'these hosts'}")

    groups, actors = snapshot.placement_groups or (), snapshot.actors or ()
    waits = any(group.wait == "never" for group in groups) or any(actor.wait == "never" for actor in actors)
    text = f"{join_names([node.title for node in missing])} {'is' if one else 'are'} not in this cluster{where}"
    text += "; actors or placement groups that are too large for its nodes wait" if waits else ""
    remedy = (
        f"if a host belongs to this cluster: {stop}run {_start_command(facts)} there; "
        "if Ray has another name for it, add its address under `hosts`"
    )
    yield facts.cluster_finding(missing, "node-missing", "warning" if waits else "info", text, evidence, remedy)


def _lines(lines: Iterable[str]) -> tuple[str, ...]:
    every = list(lines)
    return (*every[:MAX_SINGLE_FINDINGS], *([f"… and {len(every) - MAX_SINGLE_FINDINGS} more"] if len(every) > MAX_SINGLE_FINDINGS else []))
