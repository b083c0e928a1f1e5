"""Settings of the `llm` agent, from TASKPLANE_LLM_<FIELD>."""

import shlex
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from taskplane.runtime.bounds import Duration, Interval, Range, out_of_range, refuse

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
    mcp_timeout: Interval = 60.0
    # Seconds that a run may take; 0: the run_limit of the executor.
    run_limit: Duration = 600.0
    # Seconds after which an answer that is not whole becomes a task, so that it is streamed as it is written. Should be
    # less than the route_timeout of the executor. Must be more than 0.
    direct_within: Interval = 2.0
    # Seconds after which an answer becomes a task if the send does not stream and waits for the end of the turn. Must
    # be more than 0.
    direct_within_unary: Interval = 15.0
    # Seconds of silence after which a model call fails. Must be more than 0.
    timeout: Interval = 120.0
    # Number of times a model call is tried until its first token; nothing is repeated after that. At least 1.
    attempts: Annotated[int, Range(1, 100)] = 3

    def __post_init__(self) -> None:
        wrong = out_of_range(self)
        for server in self.mcp:
            try:
                shlex.split(server)
            except ValueError as error:
                wrong["mcp"] = f"has a command line that cannot be read: {error}"
        refuse(wrong)
