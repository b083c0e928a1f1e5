"""Agents written with Google's Agent Development Kit (ADK)."""

from taskplane.agents.adapters.adk.agent import adapt

__all__ = ["adapt"]
