"""What every command that talks to a server is told."""

from dataclasses import dataclass
from typing import Literal

Output = Literal["text", "json", "ndjson"]


@dataclass(frozen=True, slots=True)
class Options:
    """`token_env` names the variable that holds the API key; the key itself is never an argument."""

    url: str
    token_env: str = ""
    output: Output = "text"
    agent: str = ""
