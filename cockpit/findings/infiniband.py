"""Detects ports of InfiniBand and RoCE devices that are down, links that go down, and link errors that grow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Host, RdmaPort
from cockpit.text import clean, plural

WATCHED_S = 600.0
"""Seconds over which growth is counted."""
MIN_FELLOWS = 2
"""Number of hosts with an active port of that name from which on it should be active here too."""


@rests_on("rdma")
def rdma_ports_down(facts: Facts) -> Iterator[Finding]:
    """Ports that are down on a host with active ports. A port that was never used counts only if it is active on most other hosts."""
    active = Counter((one.device, one.port) for host in facts.fresh_hosts for one in host.rdma_ports or () if one.state == "ACTIVE")
    seen = Counter((one.device, one.port) for host in facts.fresh_hosts for one in host.rdma_ports or ())
    for host in facts.fresh_hosts:
        title, others = facts.host_title(host), sum(one.state == "ACTIVE" for one in host.rdma_ports or ())
        for port in host.rdma_ports or ():
            name, downed = (port.device, port.port), port.errors.get("link_downed", 0)
            is_usual = active[name] >= MIN_FELLOWS and 2 * active[name] > seen[name]
            is_down = port.state is not None and port.state != "ACTIVE" and others > 0 and (bool(port.used) or downed > 0 or is_usual)
            if not is_down or facts.seconds_lasting("rdma-port-down", f"{host.name} {name}") < facts.limits.rdma_down_age:
                continue
            state = f"{clean(port.state or '')}{f' ({clean(port.phys_state)})' if port.phys_state else ''}"
            elsewhere = f", and the same port is active on {plural(active[name], 'other host')}" if is_usual else ""
            times = f"; its link went down {plural(downed, 'time')} since its counters were reset" if downed else ""
            waits = port.phys_state == "LinkUp" and port.layer != "Ethernet"
            cause = "its link is up, but no subnet manager has made it active" if waits else "its link is down"
            text = (
                f"{_title(port)} on {title} is {state}, while {plural(others, 'other port')} there {'is' if others == 1 else 'are'} "
                f"active{elsewhere}: {cause}{times}"
            )
            lines = (f"cat {_folder(port)}/state {_folder(port)}/phys_state on {title}", f"ibstat {clean(port.device)} {port.port}")
            remedy = "check its cable, transceiver and switch port; `dmesg | grep -i mlx`"
            remedy = "see whether a subnet manager runs (`sminfo`)" if waits else remedy
            yield facts.host_finding(host, "rdma-port-down", "warning", text, lines, remedy, subject=_subject(title, port))


@rests_on("rdma")
def growing_rdma_errors(facts: Facts) -> Iterator[Finding]:
    """Links that went down, and link errors, in the last ten minutes or since cockpit watches them."""
    mark = facts.limits.rdma_errors
    for host in facts.fresh_hosts:
        for port in host.rdma_ports or ():
            if not port.errors:
                continue
            # Each set of counters has a history of its own: a counter that becomes readable has not grown from 0.
            watched = f"rdma {host.name} {port.device} {port.port} {','.join(sorted(port.errors))}"
            grown = facts.growth_by_name(watched, port.errors, WATCHED_S)
            minutes = max(1, round(facts.seconds_grown(watched) / 60))
            if downs := grown.get("link_downed"):
                words = f"went down {plural(int(downs), 'time')} in {plural(minutes, 'minute')} ({port.errors['link_downed']} in all)"
                then = "each time NCCL's connections over it fail or stall"
                yield _growth_finding(facts, host, port, "rdma-link-flaps", words, then, ["link_downed"])
            errors = {name: more for name, more in grown.items() if name != "link_downed"}
            subject = _subject(facts.host_title(host), port)
            if errors and facts.is_over_mark(max(errors.values()), mark, mark / 2, "rdma-link-errors", subject):
                listed = ", ".join(f"{name} {int(more)} ({port.errors[name]} in all)" for name, more in sorted(errors.items()))
                words = f"has new errors in {plural(minutes, 'minute')}: {listed}"
                then = "packets are lost or sent again, and all ranks wait for them"
                yield _growth_finding(facts, host, port, "rdma-link-errors", words, then, sorted(errors))


def _growth_finding(facts: Facts, host: Host, port: RdmaPort, code: str, words: str, then: str, names: list[str]) -> Finding:
    title = facts.host_title(host)
    text = f"The link of {_title(port)} on {title} {words}: {then}"
    lines = (f"cat {_folder(port)}/counters/{name} on {title}: {port.errors[name]}" for name in names)
    remedy = f"check its cable, transceiver and switch port (`mlxlink -d {clean(port.device)}`, `ibqueryerrors`)"
    return facts.host_finding(host, code, "warning", text, lines, remedy, subject=_subject(title, port))


def _subject(title: str, port: RdmaPort) -> str:
    return f"{title} {clean(port.device)} port {port.port}"


def _title(port: RdmaPort) -> str:
    kind = {"InfiniBand": "InfiniBand port", "Ethernet": "RoCE port"}.get(port.layer or "", "RDMA port")
    return f"{kind} {port.port} of {clean(port.device)}{f' ({clean(port.rate)})' if port.rate else ''}"


def _folder(port: RdmaPort) -> str:
    return f"/sys/class/infiniband/{clean(port.device)}/ports/{port.port}"
