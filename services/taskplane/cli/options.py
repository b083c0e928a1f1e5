"""The options of every command that talks to a server."""

from dataclasses import dataclass
from typing import Literal

Output = Literal["text", "json", "ndjson"]


@dataclass(frozen=True, slots=True)
class Options:
    """A server and an output format. `token_env` names the variable with the API key, which is never an argument
    itself."""

    url: str
    token_env: str = ""
    output: Output = "text"
    agent: str = ""
