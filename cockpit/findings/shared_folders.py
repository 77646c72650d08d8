"""Detects hosts that share one session folder of Ray, so that sockets and logs of several nodes get mixed up."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.shell_words import quote_word
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Host
from cockpit.text import clean, join_first

MAX_HOSTS_NAMED = 6


@rests_on("sessions")
def shared_sessions(facts: Facts) -> Iterator[Finding]:
    """One finding for each live session: its folder on one host has the log of a raylet that runs on another host.

    The name and path of a session prove nothing: they are the same on all nodes. Nor do device and inode, which each host numbers itself.
    """
    hosts = facts.index.hosts_by_node
    seen_by: dict[str, tuple[Host, str]] = {}
    """By path of the folder: a host that sees it, and the node of another host with a log in it."""
    sharing: dict[str, dict[str, Host]] = {}
    for host in facts.fresh_hosts:
        for session in host.sessions or ():
            others = [node for node in session.nodes if (there := hosts.get(node)) and there.name != host.name]
            if session.live and others:
                seen_by.setdefault(session.path, (host, others[0]))
                sharing.setdefault(session.path, {}).update({host.name: host, hosts[others[0]].name: hosts[others[0]]})
    for path, shared in sharing.items():
        titles = sorted({facts.host_title(host) for host in shared.values()})
        keys = {key for host in shared.values() for key in facts.index.node_keys_on(host)}
        host, node = seen_by[path]
        first, other = facts.host_title(host), facts.host_title(hosts[node])
        word, quoted_node = quote_word(path), quote_word(node)
        evidence = [f"the folder, as {first} sees it, has a log of the raylet of {other}"]
        if word is not None and quoted_node is not None:
            evidence = [
                f"grep -l {quoted_node} {word}/logs/raylet*.out on {first}: the node of {other}",
                f"ls {word}/sockets: raylet.1 and plasma_store.1 are those of a second node",
            ]
        yield facts.cluster_finding(
            [node for node in facts.living_nodes if node.key in keys],
            "session-folder-shared",
            "warning",
            f"{len(titles)} hosts, {join_first(titles, MAX_HOSTS_NAMED)}, share the session folder {clean(path)}: sockets and logs of "
            "their nodes get mixed up, and what removes the folder on one host takes it from the other too",
            evidence,
            "give each host a temp dir on a disk of its own, such as /tmp/ray: `ray start --temp-dir=…`, or RAY_TMPDIR on the head, "
            "whose path the workers use too",
        )
