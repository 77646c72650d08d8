"""Shows and repairs Ray clusters on which people run LLM reinforcement learning, in a terminal."""

__version__ = "0.9.0"
