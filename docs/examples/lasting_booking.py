"""The agent of `booking.py`, whose questions outlive its process."""

import aiosqlite
from booking import book
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph


def graph():
    saver = AsyncSqliteSaver(aiosqlite.connect("bookings.db"))
    return StateGraph(MessagesState).add_node(book).add_edge(START, "book").compile(checkpointer=saver)
