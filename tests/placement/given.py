"""Short forms of nodes, holds and requests for tests."""

from __future__ import annotations

from cockpit.placement import (
    LivingNodes,
    NodeHold,
    PlacementNode,
    PlacementVerdict,
    Request,
    explain_verdict,
    make_request,
    scale_amount,
    shape,
)


def place(
    name: str, used: dict[str, float] | None = None, holds: tuple[NodeHold, ...] = (), labels: dict[str, str] | None = None, **total: float
):
    """A node of 8 GPUs and 16 CPUs, unless told."""
    has = {name: scale_amount(amount) for name, amount in {"GPU": 8, "CPU": 16, **total}.items()}
    taken: dict[str, int] = dict.fromkeys(has, 0)
    for hold in holds:
        for resource, amount in hold.amounts.items():
            taken[resource] += amount
    taken.update({resource: scale_amount(amount) for resource, amount in (used or {}).items()})
    return PlacementNode(name, name, has, taken, labels or {}, holds)


def hold(job: str | None, what: str, **amounts: float) -> NodeHold:
    return NodeHold(job, f"job {job}", what, {name: scale_amount(amount) for name, amount in amounts.items()})


def one(labels: dict[str, str] | None = None, **needs: float) -> Request:
    """An actor."""
    return make_request([shape(needs, labels)], "STRICT_PACK")


def explain(places: list[PlacementNode], wanted: Request) -> tuple[str, str | None]:
    world = LivingNodes(places)
    verdict = world.judge(wanted)
    assert isinstance(verdict, PlacementVerdict)
    return verdict.kind, explain_verdict(world, wanted, verdict)
