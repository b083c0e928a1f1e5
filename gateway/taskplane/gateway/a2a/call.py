"""A call of an operation: who calls which agent, and what stands beside the request, in headers of HTTP or in metadata
of gRPC alike."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from taskplane.api import growing_text
from taskplane.gateway.a2a.versions import RULES
from taskplane.gateway.agents import Agent
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.auth.scheme import RequestHeaders
from taskplane.gateway.limits import parse_if_match
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.dialect import Wait
from taskplane.gateway.translate.extensions import GENERATION
from taskplane.runtime.errors import NotFound

_EXTENSIONS: Final = tuple(rules.extensions_header for rules in RULES.values())


class Call:
    """One call.

    `path` is the agent's name in the path or by its tenant, empty for the default agent; `version` the A2A version of
    the request, which decides on its `rules`; `size` the size of the request in bytes; `accepted` the time of the
    request by the loop's clock. `waiting` is entered while a client waits for its task, and cancels that when the
    client goes or this process drains. `grows`: streams have the pieces of growing texts, whether the client names that
    extension or not. `cursor` and `starting_after`, that in a query of HTTP: the event after which the stream goes on.
    """

    __slots__ = (
        "accepted",
        "agent",
        "caller",
        "cursor",
        "extensions",
        "growing_text",
        "if_match",
        "key",
        "missing",
        "numbered",
        "path",
        "plane",
        "rules",
        "size",
        "starting_after",
        "used",
        "version",
        "wait",
        "waiting",
    )

    def __init__(
        self,
        plane: Plane,
        caller: Caller,
        headers: RequestHeaders,
        *,
        path: str,
        version: str,
        size: int,
        accepted: float,
        waiting: Callable[[], AbstractAsyncContextManager[object]],
        grows: bool = False,
        starting_after: str = "",
    ) -> None:
        self.plane = plane
        self.caller = caller
        self.path = path
        self.version = version
        self.rules = RULES[version]
        self.size = size
        self.accepted = accepted
        self.waiting = waiting
        # The URIs of extensions that the client names, each once, by the header of either version.
        self.extensions: Sequence[str] = list(dict.fromkeys(headers.headers(*_EXTENSIONS)))
        self.growing_text = grows or growing_text.EXTENSION in self.extensions
        # Whether tasks and events have their generation.
        self.numbered = GENERATION in self.extensions
        # `cursors.take` returns the one of them that counts.
        self.cursor = headers.header(b"last-event-id")
        self.starting_after = starting_after
        self.key = headers.header(b"idempotency-key")
        self.if_match = headers.header(b"if-match")
        # When a send is answered; None: as its request says.
        self.wait: Wait | None = None
        # Set by admission: the agent, if it is known; the error that there is none; the extensions in use.
        self.agent: Agent | None = None
        self.missing: NotFound | None = None
        self.used: Sequence[str] = ()

    @property
    def grace_end(self) -> float:
        """Return the time, by the loop's clock, when a send that waits for a grace period is answered at the latest."""
        return self.accepted + self.plane.settings.v03_send_grace_ms / 1000

    @property
    def expected_version(self) -> int:
        """Return the version that the session must have by If-Match; 0: any. Raise Invalid."""
        return parse_if_match(self.if_match, "version") if self.if_match else 0
