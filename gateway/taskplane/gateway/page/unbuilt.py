"""The document that is served where the web page was not built: the default agent, links, and the next steps."""

from html import escape
from typing import Final
from urllib.parse import quote

from taskplane.gateway.agents import Agent
from taskplane.gateway.plane import Plane

_DOCUMENT: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>taskplane</title>
<link rel="icon" href="data:,">
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui; max-width: 40rem; margin: 2rem auto; padding: 0 1rem }}
</style>
</head>
<body>
<h1>taskplane</h1>
<p>This gateway works. Its web page is not here: {why}.</p>
<p>In a copy of the repository, <code>make ui</code> builds it; then start the gateway again.</p>
{agents}
<h2>Meanwhile</h2>
<ul>
<li><code>taskplane chat -m "hello"</code></li>
<li><a href="{root}.well-known/agent-card.json">the card of the default agent</a></li>
<li><a href="{root}api/sessions">sessions</a></li>
<li><a href="{root}readyz">readiness</a>, <a href="{root}metrics">metrics</a></li>
</ul>
</body>
</html>
"""
_AGENT: Final = """<h2>{name}</h2>
<p>{description}</p>
<ul>{skills}</ul>
<p><a href="{root}agents/{path}/.well-known/agent-card.json">its card</a></p>"""


async def explanation(plane: Plane, root: str) -> bytes:
    """Return the document. `root`: the relative address of the root of the gateway.

    It is public, so it names only the default agent, which has a public card as well.
    """
    agents = [agent for agent in await plane.agents.list_all() if agent.is_default]
    shown = "".join(_shown(agent, root) for agent in agents)
    return _DOCUMENT.format(why=escape(plane.page.why_not), agents=shown, root=root).encode()


def _shown(agent: Agent, root: str) -> str:
    card = agent.card
    skills = "".join(f"<li>{escape(skill.name)}: {escape(skill.description)}</li>" for skill in card.skills)
    path = quote(agent.name, safe="")
    return _AGENT.format(
        name=escape(card.name), description=escape(card.description), skills=skills, root=root, path=path
    )
