"""Agents of LangGraph."""

from taskplane.agents.adapters.langgraph.agent import adapt

__all__ = ["adapt"]
