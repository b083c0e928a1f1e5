"""A graph that asks before it books."""

from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt


def book(state: MessagesState):
    wish = state["messages"][-1].text
    if interrupt(f"Shall I book {wish}?") != "yes":
        return {"messages": [AIMessage("Nothing was booked.")]}
    return {"messages": [AIMessage(f"I booked {wish}.")]}


graph = StateGraph(MessagesState).add_node(book).add_edge(START, "book").compile(checkpointer=InMemorySaver())
