"""A graph that tests load by name, in a thread and in a process of its own."""

import os
from typing import Any

from langgraph.graph import START, MessagesState, StateGraph  # pyright: ignore[reportMissingTypeStubs]

Graph: Any = StateGraph


def _node(state: MessagesState) -> dict[str, Any]:
    return {"messages": [("ai", str(os.getpid()))]}


graph = Graph(MessagesState).add_node("node", _node).add_edge(START, "node")
