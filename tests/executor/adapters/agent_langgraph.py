"""The scenarios with a graph of LangGraph that streams what a model would, and asks by an interrupt."""

from typing import Any

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.types import interrupt
from tests.executor.adapters.scenarios import COUNTED, QUESTION, SECRET, Adapter, Gate, serving

from taskplane.executor.agent import ArtifactChunk


def make(gate: Gate) -> Any:
    async def answer(state: MessagesState) -> dict[str, Any]:
        word, _, rest = str(state["messages"][-1].text).partition(" ")
        match word:
            case "count":
                return {"messages": [await GenericFakeChatModel(messages=iter([COUNTED])).ainvoke("count")]}
            case "ask":
                return {"messages": [AIMessage(f"Hello, {interrupt(QUESTION)}.")]}
            case "slow":
                get_stream_writer()("begun")
                await gate.passed()
                return {"messages": [AIMessage("finished")]}
            case "fail":
                raise RuntimeError(SECRET)
            case "artifact":
                for number, piece in enumerate(("one ", "two ", "three")):
                    get_stream_writer()(
                        ArtifactChunk("r", text=piece, name="Report", append=number > 0, last=number == 2)
                    )
                return {}
            case _:
                return {"messages": [AIMessage(f"Hello, {rest}.")]}

    graph: Any = StateGraph(MessagesState)
    return graph.add_node("answer", answer).add_edge(START, "answer").compile(checkpointer=InMemorySaver())


ADAPTER = Adapter("langgraph", serving(make))
