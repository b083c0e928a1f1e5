"""The card of the demo agent."""

from taskplane.api import __version__
from taskplane.api.a2a.v1.a2a_pb2 import AgentCapabilities, AgentCard, AgentSkill


def demo_card() -> AgentCard:
    """Return the card; its skills are the commands by their kind."""
    examples = {
        "echo": ("Echo", "Says what you say, word by word.", "echo hello world"),
        "count": (
            "Count",
            "Counts to N while you watch: reload the page, stop it, or send something else.",
            "count 30",
        ),
        "code": ("Code", "Answers in Markdown: code in several languages, lists, a table.", "code"),
        "stream": ("Stream", "Streams an artifact in N chunks, fast or one every quarter second.", "slow 20"),
        "artifact": ("Artifacts", "Makes a text, a data and a file artifact.", "artifact"),
        "versions": ("Versions", "Makes an artifact piece by piece, and then a second version of it.", "versions"),
        "tool": ("Tools", "Calls a tool between two texts.", "tool"),
        "tools": ("Many tools", "Calls a tool N times.", "tools 5"),
        "progress": (
            "Progress",
            "Tells what it is doing, in N lines that are no part of the conversation.",
            "progress 8",
        ),
        "ask": ("Questions", "Asks you something, or for authentication, and goes on with your answer.", "ask"),
        "message": ("Direct answer", "Answers without a task.", "message hello"),
        "huge": ("Long text", "Says N KiB of text.", "huge 100"),
        "rtl": ("Right to left", "Says something in Hebrew and Arabic.", "rtl"),
        "trouble": ("Trouble", "Fails, rejects, floods.", "fail"),
    }
    return AgentCard(
        name="demo",
        description="A scripted agent that shows everything a task can do. It needs no key and always does the same.",
        version=__version__,
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain", "application/json", "text/csv"],
        skills=[
            AgentSkill(id=skill, name=name, description=description, tags=["demo"], examples=[example])
            for skill, (name, description, example) in examples.items()
        ],
    )
