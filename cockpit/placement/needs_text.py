"""Describes a verdict in one sentence: the request, the available resources, and the jobs that hold the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from cockpit.placement.nodes import LivingNodes, PlacementVerdict, When, amount_on
from cockpit.placement.request import SCALE, PlacementNode, Request, matches, rank, scale_amount
from cockpit.text import clean, count, join_first, plural, size

MAX_NAMED = 3
"""Nodes, jobs or values that a sentence names."""
MAX_NODES_COUNTED = 50
"""Only the nearest nodes are compared and counted by their resources."""
_NODE = "ray.io/node-id"


def explain_verdict(nodes: LivingNodes, request: Request, verdict: PlacementVerdict, *, has_gpus: bool = True) -> str | None:
    """Return why the request has no place yet, or `None` if there is room. `has_gpus`: no other request of the job lacks GPUs."""
    if verdict.kind == "now":
        return None
    if verdict.kind == "missed":
        missed = "there is room, but Ray does not find it: it places the largest bundle on the emptiest node first"
        return f"{_request_words(request, request.names)}: {missed}"
    if unmet := _unmet_label_words(nodes, request):
        return f"{_request_words(request, ())}: {unmet}"
    when: When = "ever" if verdict.kind == "never" else "now"
    takers = len(nodes.open_to(request))
    if request.is_on_one_node:
        room = _one_node_words(nodes, request, verdict.names, when)
    elif request.strategy == "STRICT_SPREAD" and takers < request.size:
        room = f"only {plural(takers, 'node')} can take it"
    else:
        room = "; ".join(_resource_words(nodes, request, name, when) for name in verdict.names[:2])
    elsewhere = "; other nodes would have room" if verdict.is_blocked_by_label else ""
    only_others = has_gpus and "GPU" in request.names and "GPU" not in verdict.names and not verdict.is_blocked_by_label
    preface = f"enough GPUs, but not enough {' and '.join(map(_safe, verdict.names))}: " if only_others else ""
    return f"{preface}{_request_words(request, verdict.names)}; {room}{elsewhere}"


def needs_words(needs: Mapping[str, float]) -> str:
    """Describe needs in a fixed order: `1 GPU, 1 CPU`."""
    return ", ".join(amount(name, scale_amount(needs[name])) for name in sorted(needs, key=rank))


def amount(name: str, fixed: int, *, bare: bool = False) -> str:
    """Describe an amount in ten-thousandths: `8 GPUs`, `0.5 GPU`, `10 GiB memory`; `bare` leaves the name out."""
    number = size(fixed / SCALE) if "memory" in name else count(fixed / SCALE)
    plural = "s" if name in {"GPU", "CPU"} and (fixed > SCALE or not fixed) else ""
    return number if bare else f"{number} {_safe(name)}{plural}"


def _safe(foreign: str) -> str:
    return clean(foreign)[:60]


def _request_words(request: Request, names: Sequence[str]) -> str:
    """Describe the request; of its resources only these, or all if `names` is empty."""
    selectors = []
    for key, value in request.labels:
        if key != _NODE:
            selector = _safe(value)
            selectors.append(f"{_safe(key)} not {selector[1:]}" if selector.startswith("!") else f"{_safe(key)}={selector}")
    labels = f" with {' and '.join(selectors)}" if selectors else ""
    if request.is_on_one_node:
        wanted = " and ".join(amount(name, request.sum(name)) for name in names or request.names)
        bound = next((f"node {_safe(value)[:8]}" for key, value in request.labels if key == _NODE), "one node")
        return f"needs {wanted + ' on ' if wanted else ''}{bound}{labels}"
    shapes: Counter[str] = Counter()
    for shape, number in request.shapes:
        shapes[" and ".join(amount(name, fixed) for name, fixed in shape.amounts if not names or name in names)] += number
    counted = ", ".join(f"{number} x {shape}" for shape, number in shapes.items() if shape)
    return f"needs {counted}{', each on a node of its own' if request.strategy == 'STRICT_SPREAD' else ''}{labels}"


def _unmet_label_words(nodes: LivingNodes, request: Request) -> str | None:
    """Describe labels that no node has, and the labels of the nodes."""
    wanted = [request.labels] if request.is_on_one_node else [shape.labels for shape, _ in request.shapes]
    labels = next((labels for labels in wanted if labels and not any(matches(node.labels, labels) for node in nodes.nodes)), None)
    if labels is None:
        return None
    if any(key == _NODE for key, _ in labels):
        return "that node is not alive"
    key = next((label[0] for label in labels if not any(matches(node.labels, [label]) for node in nodes.nodes)), labels[0][0])
    values = Counter(node.labels.get(key) for node in nodes.nodes)
    found = [f"{_safe(key)}={_safe(value)} on {plural(number, 'node')}" for value, number in values.most_common() if value is not None]
    return f"no node has that label; there are {join_first(found, MAX_NAMED)}" if found else f"no node has a label {_safe(key)}"


def _one_node_words(nodes: LivingNodes, request: Request, names: Sequence[str], when: When) -> str:
    """Describe the nodes one by one, the nearest first."""
    needs = {name: request.sum(name) for name in names}
    nearest = _nearest(nodes.open_to(request), needs, when)
    if when == "ever":
        return _total_words(nearest, names)
    by_words: dict[str, list[str]] = {}
    for node in nearest[:MAX_NODES_COUNTED]:
        facts: list[str] = []
        for name, need in needs.items():
            total, free = node.total.get(name, 0), amount_on(node, name, "now")
            in_total = amount(name, total, bare=len(needs) == 1)
            if total < need:
                facts.append(in_total)
            elif free < need:
                facts.append(f"{in_total} but {_held_words([node], name)}")
            else:
                facts.append(f"{amount(name, free, bare=len(needs) == 1)} free")
        by_words.setdefault(", ".join(facts), []).append(_safe(node.name))
    rest = f", and {len(nearest) - MAX_NODES_COUNTED} more nodes that are no better" if len(nearest) > MAX_NODES_COUNTED else ""

    # If only one resource is too few, its total may be enough.
    fragmented = ""
    if len(needs) == 1:
        [(name, need)] = needs.items()
        free = nodes.sum(request, name, "now")
        fragmented = f"{amount(name, free)} {_is_or_are(free)} free, but not on one node: " if free >= need else ""
    return f"{fragmented}{_count_nodes(by_words)}{rest}"


def _nearest(nodes: Iterable[PlacementNode], needs: dict[str, int], when: When) -> list[PlacementNode]:
    """Return the nodes in order: first the large enough ones, then the ones with most of the needs. Equal nodes are judged once."""
    kinds: dict[tuple[int, ...], list[PlacementNode]] = {}
    for node in nodes:
        kinds.setdefault(tuple([each.get(name, 0) for each in (node.total, node.used) for name in needs]), []).append(node)

    def nearness(kind: list[PlacementNode]) -> tuple[bool, float]:
        is_large_enough = all(kind[0].total.get(name, 0) >= need for name, need in needs.items())
        return is_large_enough, min((amount_on(kind[0], name, when) / need for name, need in needs.items()), default=1.0)

    return [node for kind in sorted(kinds.values(), key=nearness, reverse=True) for node in kind]


def _total_words(nodes: Sequence[PlacementNode], names: Sequence[str]) -> str:
    """Describe the total resources of the nodes; equal nodes are counted."""
    if not any(node.total.get(name) for node in nodes for name in names):
        return "no node has any" if nodes else "no node is allowed to run it"
    bare = len(names) == 1
    by_words: dict[str, list[str]] = {}
    for node in nodes:
        by_words.setdefault(" and ".join(amount(name, node.total.get(name, 0), bare=bare) for name in names), []).append(_safe(node.name))
    return _count_nodes(by_words)


def _count_nodes(by_words: Mapping[str, Sequence[str]]) -> str:
    """Write `w1 has …`, or `3 nodes have …`. `by_words` has the names of the nodes with the same description."""
    texts = [f"{names[0]} has {words}" if len(names) == 1 else f"{len(names)} nodes have {words}" for words, names in by_words.items()]
    return join_first(texts, MAX_NAMED, "other kinds of node")


def _resource_words(nodes: LivingNodes, request: Request, name: str, when: When) -> str:
    allowed, need = nodes.open_to(request), request.sum(name)
    total, free = nodes.sum(request, name, "ever"), nodes.sum(request, name, "now")
    if not total:
        return f"no node has any {_safe(name)}"
    if when == "ever" and total < need:
        return f"there are only {amount(name, total)} in total"
    if when == "ever":
        pieces = _total_words(sorted(allowed, key=lambda node: -node.total.get(name, 0)), [name])
        return f"{_fitting_words(nodes, request, when)} on empty nodes: {pieces}"
    held = _held_words(allowed, name)
    if free < need:
        return f"{amount(name, free, bare=True)} of {amount(name, total)} {_is_or_are(free)} free, {held}"
    freest = sorted((node for node in allowed if amount_on(node, name, "now")), key=lambda node: -amount_on(node, name, "now"))
    on_nodes = join_first(
        [f"{_safe(node.name)} has {amount(name, amount_on(node, name, 'now'), bare=True)} free" for node in freest], MAX_NAMED
    )
    return f"{amount(name, free)} {_is_or_are(free)} free in total, but {_fitting_words(nodes, request, when)}: {on_nodes}; {held}"


def _fitting_words(nodes: LivingNodes, request: Request, when: When) -> str:
    fitting = nodes.count_fitting(request, when)
    if fitting is None:
        return "its bundles don't fit"
    return f"only {plural(fitting, 'bundle fits', 'bundles fit')}" if fitting else "no bundle fits"


def _is_or_are(fixed: int) -> str:
    return "is" if fixed == SCALE else "are"


def _held_words(nodes: Iterable[PlacementNode], name: str) -> str:
    """Describe how much of a resource is reserved, and by which jobs."""
    used, jobs, parts = 0, Counter[str](), dict[str, dict[str, None]]()
    for node in nodes:
        used += node.used.get(name, 0)
        for hold in node.holds:
            if held := hold.amounts.get(name, 0):
                jobs[hold.who] += held
                parts.setdefault(hold.who, {})[hold.what] = None
    known = {who: f"{_safe(who)} ({join_first([_safe(what) for what in parts[who]], MAX_NAMED)})" for who in jobs}
    if (rest := used - jobs.total()) > 0:
        jobs[""], known[""] = rest, "tasks or starting workers"
    if len(jobs) == 1:
        return f"{amount(name, used, bare=True)} {_is_or_are(used)} reserved by {next(iter(known.values()))}"
    shares = [f"{amount(name, held, bare=True)} by {known[who]}" for who, held in jobs.most_common()]
    by_whom = f": {join_first(shares, MAX_NAMED)}" if shares else ""
    return f"{amount(name, used, bare=True)} {_is_or_are(used)} reserved{by_whom}"
