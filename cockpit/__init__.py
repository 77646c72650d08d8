"""A terminal cockpit for people who run LLM reinforcement learning on Ray."""

__version__ = "0.9.0"
