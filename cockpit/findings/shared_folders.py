"""Hosts that share one session folder of Ray: sockets and logs of several nodes then lie in one place."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.shell_words import quote_word
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Host, Session
from cockpit.text import clean, join_first

MAX_HOSTS_NAMED = 6


@rests_on("sessions")
def shared_sessions(facts: Facts) -> Iterator[Finding]:
    """One for each living session whose folder, as one host sees it, has the log of a raylet that runs on another host.

    All nodes of a cluster call their session alike, so that neither its name nor its path tells; nor do device and inode, which each host
    numbers for itself.
    """
    hosts, found = facts.index.hosts_by_node, dict[str, dict[str, tuple[Host, Session, str]]]()
    for host in facts.fresh_hosts:
        for session in host.sessions or ():
            others = [node for node in session.nodes if (there := hosts.get(node)) and there.name != host.name]
            if session.live and others:
                found.setdefault(session.path, {})[host.name] = host, session, others[0]
                there = hosts[others[0]]
                found[session.path].setdefault(there.name, (there, session, others[0]))
    for path, shared in found.items():
        yield _finding(facts, path, [*shared.values()])


def _finding(facts: Facts, path: str, shared: list[tuple[Host, Session, str]]) -> Finding:
    titles = sorted({facts.host_title(host) for host, _, _ in shared})
    keys = {key for host, _, _ in shared for key in facts.index.node_keys_on(host)}
    nodes = [node for node in facts.living_nodes if node.key in keys]
    _, session, node = shared[0]
    other, first = facts.host_title(facts.index.hosts_by_node[node]), facts.host_title(facts.snapshot.hosts[session.host])
    word, quoted_node = quote_word(path), quote_word(node)
    if word is not None and quoted_node is not None:
        evidence = [
            f"grep -l {quoted_node} {word}/logs/raylet*.out on {first}: the node of {other}",
            f"ls {word}/sockets: raylet.1 and plasma_store.1 are those of a second node",
        ]
    else:
        evidence = [f"the folder, as {first} sees it, has a log of the raylet of {other}"]
    return facts.cluster_finding(
        nodes,
        "session-folder-shared",
        "warning",
        f"{len(titles)} hosts, {join_first(titles, MAX_HOSTS_NAMED)}, share the session folder {clean(path)}: sockets and logs of their "
        "nodes get mixed up, and what removes the folder on one host takes it from the other too",
        evidence,
        "give each host a temp dir on a disk of its own, such as /tmp/ray: `ray start --temp-dir=…`, or RAY_TMPDIR on the head, "
        "whose path the workers use too",
    )
