"""Nodes that Ray has given up, nodes of which it hears nothing any more, and hosts of the config that are no nodes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from math import inf

from cockpit.alike import group_by
from cockpit.findings.facts import Facts
from cockpit.findings.node_addresses import head_under_same_address
from cockpit.findings.rays_here import is_loopback
from cockpit.findings.sources import rests_on
from cockpit.findings.waiting import join_names
from cockpit.model import LEVELS, Finding, Host, Level, Node, Process, RayProcess, Remedy
from cockpit.text import age, clean, gpus_words, join_first, plural

MAX_SINGLE_FINDINGS = 20
"""Nodes from which on they are told as one: a switch or a power supply has failed, not each of them by itself."""
RESTART_S = 30.0
"""Seconds before a node's death in which another one of its address may have begun: Ray notices after 16 s that a raylet was killed."""
MARKED_DEAD_S = 10.0
"""Seconds for which a raylet outlives being marked dead: it ends itself when it hears of it."""
SKEWED_CLOCK_S = 10.0
"""Seconds in which an agent whose host's clock is behind reports once more, and so is known to live."""
GCS_PORT = 6379
"""Of a Ray that was started without --port (2.60, scripts.py)."""
AGENT_COMMANDS = ("ray::DashboardAgent", "/dashboard/agent.py")


@rests_on("ray.nodes")
def dead_nodes(facts: Facts) -> Iterator[Finding]:
    """Nodes that Ray has declared dead, unless a node of the same address lives again or the autoscaler took them away."""
    dead = [node for node in facts.snapshot.nodes or () if node.state == "DEAD" and "due to idle" not in (node.message or "")]
    if not dead:
        return
    there = group_by((*facts.living_nodes, *dead), lambda node: node.ip)
    gone = [node for node in dead if not (node.ip and any(_has_replaced(one, node) for one in there[node.ip] if one is not node))]
    lately = [node for node in gone if _seconds_dead(facts, node) < facts.limits.death_news]
    if len(lately) > MAX_SINGLE_FINDINGS:
        yield _many_dead_finding(facts, lately)
    else:
        names = Counter(node.title for node in (*facts.living_nodes, *lately))
        yield from (
            _dead_finding(facts, node, facts.title(node) if names[node.title] < 2 else f"{node.title} ({(node.id or '')[:8]})")
            for node in lately
        )
    if before := [node for node in gone if _seconds_dead(facts, node) >= facts.limits.death_news]:
        yield _long_dead_finding(facts, before)


def _has_replaced(later: Node, dead: Node) -> bool:
    """Whether it has taken the place of the dead one; several raylets may have lived on a host side by side."""
    if later.started is None or dead.started is None:
        return later.state == "ALIVE"
    return later.started > dead.started and (dead.ended is None or later.started > dead.ended - RESTART_S)


def _death_time(facts: Facts, node: Node) -> float | None:
    """Unless the head's clock is far from ours."""
    return min(node.ended, facts.now) if node.ended is not None and 0 < node.ended <= facts.now + 60 else None


def _seconds_dead(facts: Facts, node: Node) -> float:
    """Seconds since its death, or since it was first seen dead."""
    watched = facts.seconds_lasting("node-dead", node.id or node.host)
    died = _death_time(facts, node)
    return watched if died is None else facts.now - died


def _dead_finding(facts: Facts, node: Node, name: str) -> Finding:
    raylet, died = _raylet(facts, node), _death_time(facts, node)
    when = f" {age(facts.now - died)} ago" if died is not None else ""
    if raylet is not None:
        stopped = ", stopped by a signal" if raylet.state == "T" else ""
        text = f"Ray marked {name} dead{when} ({_reason(node)}), but its raylet (pid {raylet.pid}{stopped}) still runs there"
    else:
        text = f"{name} died{when} ({_reason(node)})"
    return Finding(
        code="node-dead",
        level=_level(node),
        subject=name,
        text=text + _loss_words(facts, [node]),
        evidence=tuple(_evidence(facts, node)),
        since=died,
        remedy=_remedy(facts, node, raylet),
        about=(node.key, *(process.key for process in _raylet_processes(facts, node, raylet))),
        seen=facts.last_heard_before_fault("ray.nodes"),
    )


def _many_dead_finding(facts: Facts, dead: list[Node]) -> Finding:
    common = Counter(map(_reason, dead)).most_common(3)
    reasons = "; ".join(f"{reason}: {times}" for reason, times in common)
    return facts.cluster_finding(
        dead,
        "nodes-dead",
        min(map(_level, dead), key=LEVELS.index),
        f"{len(dead)} nodes died ({reasons}){_loss_words(facts, dead)}",
        _lines(map(_record_line, dead)),
        "find what they have in common (a switch, a power supply, a scheduler), then start Ray on them again",
        since=min((died for node in dead if (died := _death_time(facts, node)) is not None), default=None),
        seen=facts.last_heard_before_fault("ray.nodes"),
    )


def _long_dead_finding(facts: Facts, dead: list[Node]) -> Finding:
    return facts.cluster_finding(
        dead,
        "nodes-dead-for-long",
        "info",
        f"{plural(len(dead), 'node')} died more than {age(facts.limits.death_news)} ago and {'is' if len(dead) == 1 else 'are'} not back: "
        f"{join_first([facts.title(node) for node in dead], 8)}",
        _lines(map(_record_line, dead)),
        "nothing to do if you do not need them: Ray lists dead nodes until it is restarted",
        seen=facts.last_heard_before_fault("ray.nodes"),
    )


def _level(node: Node) -> Level:
    """Ray calls it expected when somebody has ended the raylet with SIGTERM, as `ray stop` and schedulers do, or has drained the node.

    Then it is somebody's wish, and worth a look only where work went with it.
    """
    if not (node.message or "").startswith("Expected termination"):
        return "critical"
    return "warning" if node.had else "info"


def _reason(node: Node) -> str:
    words = " ".join((node.message or "").split())[:200]
    return words.removeprefix("Unexpected termination: ").removeprefix("Expected termination: ").rstrip(".") or "no reason given"


def _loss_words(facts: Facts, dead: list[Node]) -> str:
    """What went with them. Which actors a node had is known only of those that lived while cockpit looked."""
    gpus = sum(total for node in dead if (has := node.resources.get("GPU")) and 0 < (total := has.total or 0) < inf)
    lost = [actor for node in dead for actor in node.had]
    parts = [gpus_words(gpus)] if gpus else []
    parts += [plural(len(lost), "actor")] if lost else []
    back = sum(1 for actor in lost if _is_restarted(facts, actor)) if lost else 0
    again = f"; Ray restarts {back} of these actors" if back else ""
    return f"; lost with {'it' if len(dead) == 1 else 'them'}: {' and '.join(parts)}{again}" if parts else ""


def _is_restarted(facts: Facts, actor: str) -> bool:
    known = facts.actors.get(actor)
    if known is None or known.state != "ALIVE":
        return known is not None
    node = facts.nodes.get(known.node or "")
    return node is not None and node.state == "ALIVE"


def _host(facts: Facts, node: Node) -> Host | None:
    """Where it was, if that is looked at."""
    host = facts.index.host_of(node)
    return host if host in facts.fresh_hosts else None


def _raylet(facts: Facts, node: Node) -> RayProcess | None:
    """The raylet that still lives though it was marked dead."""
    host = _host(facts, node)
    for ray in (host.rays if host else None) or ():
        if ray.role == "raylet" and ray.node == node.id and ray.node and ray.state not in ("Z", "X"):
            return ray if facts.seconds_lasting("node-marked", ray.node) >= MARKED_DEAD_S else None
    return None


def _raylet_processes(facts: Facts, node: Node, raylet: RayProcess | None) -> list[Process]:
    host = _host(facts, node) if raylet else None
    return [one for one in facts.index.processes_by_host.get(host.name, ()) if raylet and one.pid == raylet.pid] if host else []


def _evidence(facts: Facts, node: Node) -> Iterator[str]:
    yield _record_line(node)
    host = _host(facts, node)
    if host is not None and host.rays is not None:
        here = [ray for ray in host.rays if ray.role == "raylet" and ray.node == node.id]
        yield from (f"ps on {facts.host_title(host)}: raylet (pid {ray.pid}) runs, in state {ray.state or 'unknown'}" for ray in here)
        if not here:
            yield f"ps on {facts.host_title(host)}: no raylet of that node runs there"
    if head := head_under_same_address(facts, node):
        yield f"`ip -brief address` on {facts.title(head)}, the head: {node.ip} is an address of that host too"
    names = {node.host, node.name, node.ip, node.title}
    yield from (f"{fault.host}: {fault.text}" for fault in facts.snapshot.faults if fault.source == "probe" and fault.host in names)


def _record_line(node: Node) -> str:
    return f"ray list nodes: {(node.id or '')[:12]} {node.title} {node.ip} DEAD: {node.message or 'no reason given'}"


def _remedy(facts: Facts, node: Node, raylet: RayProcess | None) -> Remedy:
    again = f"start Ray there again: {_start_command(facts)}"
    if head := head_under_same_address(facts, node):
        text = f"{node.ip}, under which it was registered, is an address of {facts.title(head)}, the head, too: the head asked itself"
        return Remedy(f"{text}; {again} with --node-ip-address= and an address that only that host has")
    if (wrong := _wrong_address_words(facts, node)) is not None:
        again = wrong
    if raylet is not None:
        ended = bool(_raylet_processes(facts, node, raylet))
        return Remedy(f"kill that raylet, which can't rejoin the cluster, and {again}", "kill" if ended else None)
    if wrong is not None:
        return Remedy(again)
    if "agent" in (node.message or ""):
        return Remedy(f"read in logs/dashboard_agent.log of its session on {node.title} why the agent ended, then {again}")
    return Remedy(f"check that the host is up, read the end of logs/raylet.out of its session, then {again}")


def _start_command(facts: Facts, flags: str = "") -> str:
    """How a host joins this cluster; the GCS's address, where a probe sees it in the command line of one of its raylets."""
    rays = (ray for host in facts.fresh_hosts for ray in host.rays or () if ray.node in facts.nodes or _is_session(facts, ray.session))
    seen = next((ray.gcs for ray in rays if ray.gcs), None)
    head = next((node for node in facts.living_nodes if node.head and node.ip), None)
    if seen is None or is_loopback(seen.rpartition(":")[0].strip("[]")):
        host = f"[{head.ip}]" if head and ":" in head.ip else head.ip if head else "HEAD"
        seen = f"{host}:{seen.rpartition(':')[2] if seen else GCS_PORT}"
    return f"`ray start --address={clean(seen)}{flags}`"


def _is_session(facts: Facts, session: str | None) -> bool:
    return session is not None and session == facts.snapshot.cluster.session


def _wrong_address_words(facts: Facts, node: Node) -> str | None:
    """What to do where the raylet named an address that the head can't reach: started the same way again, the node dies again.

    `None`: its address is one of its host's, or what its host has is not known.
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
    """Living nodes whose figures stand still while the dashboard answers."""
    asked = facts.snapshot.as_of.get("ray.nodes")
    if asked is None or facts.snapshot.cluster.reachable is False or facts.has_fault("ray.nodes") or facts.has_fault("ray.gcs"):
        return
    least = facts.limits.agent_silent / 2
    reported = [(node, asked - node.agent.seen) for node in facts.living_nodes if node.agent.seen is not None]
    behind = [(node, silent) for node, silent in reported if least <= silent < inf]
    if not behind:
        return
    known = len(reported)
    late = [(node, silent) for node, silent in behind if _is_silent(facts, node, silent)]
    if len(late) > MAX_SINGLE_FINDINGS or 1 < len(late) == known:
        yield _many_silent_finding(facts, [node for node, _ in late], min(silent for _, silent in late), known)
    else:
        yield from (_silent_finding(facts, node, silent) for node, silent in late)


def _is_silent(facts: Facts, node: Node, silent: float) -> bool:
    """It goes on until the agent reports again, whatever it is told as."""
    held = facts.seconds_lasting("agent-silent", node.id or node.host)
    return held >= SKEWED_CLOCK_S and silent >= facts.limits.agent_silent


def _silent_finding(facts: Facts, node: Node, silent: float) -> Finding:
    name, agent, seen = facts.title(node), _agent(facts, node), list[str]()
    stopped, cure = "", "read logs/dashboard_agent.log there, and check the host's load"
    if agent is not None:
        seen = [f"ps on {name}: pid {agent.pid} is in state {agent.state or 'unknown'}: {agent.command or agent.name or ''}"]
        if agent.state == "T":
            stopped, cure = f": its process (pid {agent.pid}) is stopped by a signal", f"`kill -CONT {agent.pid}` on {name}"
    doubt = f", or the clock of that node is {age(silent)} behind" if facts.is_single_look and not stopped else ""
    return Finding(
        code="agent-silent",
        level="info" if doubt else "warning",
        subject=name,
        text=f"Ray's agent on {name} has not reported for {age(silent)}{stopped}{doubt}; "
        "Ray's numbers for its GPUs and memory are that old",
        evidence=(f"/nodes?view=summary: `now` of {name} has not changed for {age(silent)}, but Ray lists it as ALIVE", *seen),
        since=node.agent.seen,
        remedy=Remedy(f"{cure}; do not kill the agent: its raylet and all work on the node would end with it"),
        about=(node.key, *((agent.key,) if agent else ())),
    )


def _agent(facts: Facts, node: Node) -> Process | None:
    host = _host(facts, node)
    mine = facts.index.processes_by_host.get(host.name, ()) if host else ()
    ours = [one for one in mine if one.ours is not False and one.node in (None, node.id)]
    found = [one for one in ours if any(words in (one.command or "") for words in AGENT_COMMANDS)]
    return next((one for one in found if one.state == "T"), found[0] if found else None)


def _many_silent_finding(facts: Facts, late: list[Node], silent: float, known: int) -> Finding:
    return facts.cluster_finding(
        late,
        "agents-silent",
        "warning",
        f"The agents of {len(late)} of {known} nodes have not reported for {age(silent)}, but the dashboard answers; "
        "Ray's numbers for their GPUs and memory are that old",
        _lines(f"/nodes?view=summary: `now` of {facts.title(node)} has not changed" for node in late),
        "read logs/dashboard.log on the head: the dashboard's node module, or the network between the head and the nodes, does not work",
    )


@rests_on("ray.nodes")
def missing_hosts(facts: Facts) -> Iterator[Finding]:
    """Hosts of the config on which no node of this cluster lives, nor has lived."""
    snapshot = facts.snapshot
    if not snapshot.cluster.reachable or facts.has_fault("ray.nodes") or not facts.living_nodes:
        return
    if snapshot.allocation and snapshot.allocation.lacks:  # what else Slurm's nodes are called is not known
        return
    # A cluster elsewhere can be watched from a laptop that has a Ray of its own.
    lone = [node for node in snapshot.nodes or () if node.id is None and not ((host := facts.index.host_of(node)) and host.local)]
    missing = [node for node in lone if facts.seconds_lasting("node-missing", node.host) >= facts.limits.node_missing]
    if missing:
        yield _missing_finding(facts, missing)


def _missing_finding(facts: Facts, missing: list[Node]) -> Finding:
    one, names = len(missing) == 1, join_names([node.title for node in missing], len(missing))
    others = _raylet_sessions(facts, missing[0]) if one else ()
    where = f": its raylet belongs to another cluster ({others[0]})" if others else ""
    groups, actors = facts.snapshot.placement_groups or (), facts.snapshot.actors or ()
    waits = any(group.wait == "never" for group in groups) or any(actor.wait == "never" for actor in actors)
    return facts.cluster_finding(
        missing,
        "node-missing",
        "warning" if waits else "info",
        f"{names} {'is' if one else 'are'} not in this cluster{where}"
        f"{'; actors or placement groups that are too large for its nodes wait' if waits else ''}",
        (
            *(f"{node.title}: {_raylet_words(facts, node)}" for node in missing[:MAX_SINGLE_FINDINGS]),
            f"`ray list nodes` lists {plural(len(facts.living_nodes), 'live node')}, but not {'this host' if one else 'these hosts'}",
        ),
        f"if a host belongs to this cluster: {'stop the other Ray there, then ' if others else ''}run {_start_command(facts)} there; "
        "if Ray has another name for it, add its address under `hosts`",
    )


def _raylet_words(facts: Facts, node: Node) -> str:
    sessions = _raylet_sessions(facts, node)
    if sessions is None:
        return "no probe data"
    return f"its raylet belongs to {', '.join(sessions)}" if sessions else "no raylet runs there"


def _raylet_sessions(facts: Facts, node: Node) -> list[str] | None:
    host = facts.index.host_of(node)
    return None if host is None or host.rays is None else [ray.session for ray in host.rays if ray.role == "raylet" and ray.session]


def _lines(lines: Iterable[str]) -> tuple[str, ...]:
    every = list(lines)
    return (*every[:MAX_SINGLE_FINDINGS], *([f"… and {len(every) - MAX_SINGLE_FINDINGS} more"] if len(every) > MAX_SINGLE_FINDINGS else []))
