"""Decides whether bundles can be placed on nodes as Ray places them, and why not. Pure and exact."""

from cockpit.placement.deadlock import Deadlock, deadlock
from cockpit.placement.fit import room
from cockpit.placement.free_capacity import FreeCapacity, NodeShare
from cockpit.placement.needs_text import amount, needs_words, sentence
from cockpit.placement.nodes import LivingNodes, PlacementVerdict
from cockpit.placement.request import SCALE, Ask, NodeHold, Place, Shape, Strategy, ask, matches, scale_amount, shape

__all__ = [
    "SCALE",
    "Ask",
    "Deadlock",
    "FreeCapacity",
    "LivingNodes",
    "NodeHold",
    "NodeShare",
    "Place",
    "PlacementVerdict",
    "Shape",
    "Strategy",
    "amount",
    "ask",
    "deadlock",
    "matches",
    "needs_words",
    "room",
    "scale_amount",
    "sentence",
    "shape",
]
