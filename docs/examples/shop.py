"""An agent of pydantic-ai for a small shop, which asks before it orders."""

from pydantic_ai import Agent, DeferredToolRequests

agent = Agent(
    "openai-chat:gpt-5-mini", instructions="You answer for a small shop.", output_type=[str, DeferredToolRequests]
)


@agent.tool_plain
def stock(item: str) -> int:
    """Return how many pieces of an item are in the warehouse."""
    return {"bolts": 40, "nuts": 12}.get(item, 0)


@agent.tool_plain(requires_approval=True)
def order(item: str, pieces: int) -> str:
    """Order pieces of an item."""
    return f"{pieces} {item} will come on Monday."
