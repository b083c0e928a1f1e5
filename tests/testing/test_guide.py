"""The further agents of the guide, as printed there."""

import re
from pathlib import Path
from typing import Any

from tests.executor.plane import Stores, open_plane, text

GUIDE = Path(__file__).parents[2] / "docs" / "agents.md"


def printed(name: str) -> Any:
    """Returns an agent of the guide by the name of its class."""
    for source in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        if f"class {name}:" in source:
            found: dict[str, Any] = {}
            exec(source, found)
            return found[name]()
    raise AssertionError(f"the guide has no {name}")


async def test_the_router_of_the_guide_answers_directly_or_continues_in_a_task(stores: Stores) -> None:
    """P2: a short answer is direct; a long one loses nothing."""
    async with open_plane(stores, ("a", printed("Answering"))) as plane:
        assert text((await plane.submit("Yes")).message) == "Yes it is."
        task = await plane.run("one two three")
        assert text(task.status.message).split() == ["one", "two", "three"]
