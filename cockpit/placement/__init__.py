"""Whether what is asked for can be placed on the nodes there are, as Ray places it; and if not, why not. Pure and exact."""

from cockpit.placement.ask import SCALE, Ask, Hold, Place, Shape, Strategy, ask, fixed, matches, shape
from cockpit.placement.deadlock import Deadlock, deadlock
from cockpit.placement.fit import Room, room
from cockpit.placement.ground import Ground, Taken
from cockpit.placement.words import amount, sentence
from cockpit.placement.world import Kind, Verdict, World, has

__all__ = [
    "SCALE",
    "Ask",
    "Deadlock",
    "Ground",
    "Hold",
    "Kind",
    "Place",
    "Room",
    "Shape",
    "Strategy",
    "Taken",
    "Verdict",
    "World",
    "amount",
    "ask",
    "deadlock",
    "fixed",
    "has",
    "matches",
    "room",
    "sentence",
    "shape",
]
