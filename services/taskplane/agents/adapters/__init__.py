"""Adapters: agents that were written for something else, run unchanged."""

from taskplane.agents.adapters.detection import adapt

__all__ = ["adapt"]
