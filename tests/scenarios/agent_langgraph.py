"""The scenarios with a graph of LangGraph that asks by an interrupt and keeps its thread in a database."""

import os
from pathlib import Path
from typing import Any

import aiosqlite
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.types import interrupt
from tests.scenarios.agent_function import first, others
from tests.scenarios.script import COUNTED, GATES, QUESTION, SECRET, Gate, rerun

from taskplane.agents.agent import Agent


async def answer(state: MessagesState) -> dict[str, Any]:
    word, _, rest = str(state["messages"][-1].text).partition(" ")
    match word:
        case "count":
            return {"messages": [await GenericFakeChatModel(messages=iter([COUNTED])).ainvoke("count")]}
        case "ask":
            return {"messages": [AIMessage(f"Hello, {interrupt(QUESTION)}.")]}
        case "slow":
            get_stream_writer()("begun")
            await Gate(rest).passed()
            return {"messages": [AIMessage("finished")]}
        case "fail":
            raise RuntimeError(SECRET)
        case "artifact":
            get_stream_writer()(first())
            await Gate(rest).passed()
            for chunk in others():
                get_stream_writer()(chunk)
            return {}
        case _:
            return {"messages": [AIMessage(f"Hello, {rest}.")]}


def graph(name: str) -> Any:
    builder: Any = StateGraph(MessagesState)
    database = aiosqlite.connect(Path(os.environ[GATES]) / f"{name}.db")
    return builder.add_node("answer", answer).add_edge(START, "answer").compile(checkpointer=AsyncSqliteSaver(database))


def agent() -> Any:
    return graph("langgraph")


def again() -> Agent:
    return rerun(graph("langgraph-again"))
