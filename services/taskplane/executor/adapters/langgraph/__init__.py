"""Agents of LangGraph."""

from taskplane.executor.adapters.langgraph.agent import adapt

__all__ = ["adapt"]
