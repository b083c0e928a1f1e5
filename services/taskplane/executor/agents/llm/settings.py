"""Settings of the `llm` agent, from TASKPLANE_LLM_<FIELD>."""

import math
import shlex
from dataclasses import dataclass
from typing import Final, Literal

from taskplane.runtime.errors import Invalid

PREFIX: Final = "TASKPLANE_LLM_"


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings:
    """Settings in seconds unless they say otherwise. A value that cannot work raises Invalid."""

    # The model as pydantic-ai names it, PROVIDER:NAME, such as openai-chat:gpt-5-mini or ollama:qwen3. The variables of
    # its provider, such as OPENAI_API_KEY and OPENAI_BASE_URL, are read as well.
    model: str = ""
    # The tasks that end with an artifact. always: each; the model is told to make one if it made none. auto: those in
    # which the model made one.
    artifact: Literal["always", "auto"] = "always"
    # Instructions for the model, besides those on routing and artifacts.
    prompt: str = ""
    # The MCP servers whose tools the model has, each the URL of a server or the command line of one; they are opened
    # and closed with each run.
    mcp: tuple[str, ...] = ()
    # Seconds that an MCP server may take to start and to answer for the first time. Must be more than 0.
    mcp_timeout: float = 60.0
    # Seconds that a run may take; 0: the run_limit of the executor.
    run_limit: float = 600.0
    # Seconds of silence after which a model call fails. Must be more than 0.
    timeout: float = 120.0
    # Number of times a model call is tried until its first token; nothing is repeated after that. At least 1.
    attempts: int = 3

    def __post_init__(self) -> None:
        wrong: dict[str, str] = {}
        if not 0 <= self.run_limit < math.inf:
            wrong["run_limit"] = "must be a number of seconds, or 0"
        for name in ("mcp_timeout", "timeout"):
            if not 0 < getattr(self, name) < math.inf:
                wrong[name] = "must be a number of seconds, more than 0"
        if self.attempts < 1:
            wrong["attempts"] = "must be at least 1"
        for server in self.mcp:
            try:
                shlex.split(server)
            except ValueError as error:
                wrong["mcp"] = f"has a command line that cannot be read: {error}"
        if wrong:
            named = {f"{PREFIX}{name.upper()}": problem for name, problem in wrong.items()}
            text = "; ".join(f"{name} {problem}" for name, problem in named.items())
            raise Invalid(f"these settings cannot be used: {text}", reason="BAD_SETTING", fields=named)
