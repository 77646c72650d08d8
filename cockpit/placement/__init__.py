"""Decides whether bundles can be placed on nodes as Ray places them, and why not. Pure and exact."""

from cockpit.placement.deadlock import Deadlock, find_deadlock
from cockpit.placement.fit import check_fit
from cockpit.placement.free_capacity import FreeCapacity, NodeShare
from cockpit.placement.needs_text import amount, explain_verdict, needs_words
from cockpit.placement.nodes import LivingNodes, PlacementVerdict
from cockpit.placement.request import SCALE, NodeHold, PlacementNode, Request, Shape, Strategy, make_request, matches, scale_amount, shape

__all__ = [
    "SCALE",
    "Deadlock",
    "FreeCapacity",
    "LivingNodes",
    "NodeHold",
    "NodeShare",
    "PlacementNode",
    "PlacementVerdict",
    "Request",
    "Shape",
    "Strategy",
    "amount",
    "check_fit",
    "explain_verdict",
    "find_deadlock",
    "make_request",
    "matches",
    "needs_words",
    "scale_amount",
    "shape",
]
