"""Settings of the `llm` agent, from TASKPLANE_LLM_<FIELD>."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from taskplane.runtime.bounds import Duration, Interval, Range
from taskplane.runtime.settings import Settings

PREFIX: Final = "TASKPLANE_LLM_"


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings(Settings):
    """Settings in seconds unless they say otherwise. A value that cannot work raises Invalid."""

    # Model by its name in pydantic-ai, PROVIDER:NAME, such as openai-chat:gpt-5-mini or ollama:qwen3. The provider
    # reads its own variables, such as OPENAI_API_KEY and OPENAI_BASE_URL.
    model: str = ""
    # Tasks that end with an artifact. always: all tasks; a model without an artifact must make one. auto: only
    # tasks in which the model makes one.
    artifact: Literal["always", "auto"] = "always"
    # Your instructions for the model, in addition to the built-in instructions on routing and artifacts.
    prompt: str = ""
    # MCP servers with tools for the model, each a URL or a command line. They are opened and closed with each run.
    mcp: tuple[str, ...] = ()
    # Time in seconds for the start and the first response of an MCP server. Must be more than 0.
    mcp_timeout: Interval = 60.0
    # Maximum duration of a run in seconds. 0: the run_limit of the executor.
    run_limit: Duration = 600.0
    # Time in seconds after which an unfinished answer becomes a task, so that the rest is streamed. Should be less than
    # the route_timeout of the executor. Must be more than 0.
    direct_within: Interval = 2.0
    # Time in seconds after which an answer becomes a task if the send does not stream and waits for the end of the
    # turn. Must be more than 0.
    direct_within_unary: Interval = 15.0
    # Time in seconds without any data after which a model call fails. Must be more than 0.
    timeout: Interval = 120.0
    # Maximum number of attempts of a model call until its first token; later failures are not retried. At least 1.
    attempts: Annotated[int, Range(1, 100)] = 3

    def contradictions(self) -> Mapping[str, str]:
        """Read each command line once."""
        wrong: dict[str, str] = {}
        for server in self.mcp:
            try:
                shlex.split(server)
            except ValueError as error:
                wrong["mcp"] = f"has a command line that cannot be read: {error}"
        return wrong
