"""The dependencies of the gateway's handlers."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from taskplane.api.executor.v1.executor_pb2_grpc import AgentExecutorStub
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskOperationsStub, TaskStoreStub
from taskplane.gateway.agents import Agents
from taskplane.gateway.auth.authenticator import Authenticator
from taskplane.gateway.built_page import BuiltPage
from taskplane.gateway.card_signing import CardSigner
from taskplane.gateway.settings import GatewaySettings
from taskplane.gateway.web.streams import Streams
from taskplane.gateway.web.translation_thread import TranslationThread
from taskplane.gateway.web.uploads import Uploads
from taskplane.runtime.pacing import Pacer


@dataclass(frozen=True, slots=True)
class Plane:
    """The services behind the gateway and its state in memory. The stubs call for the principal of the request."""

    settings: GatewaySettings
    # The address of this gateway for clients, without a slash at its end.
    public_url: str
    # The address of A2A over gRPC for clients, host:port; empty: none.
    public_grpc: str
    tasks: TaskStoreStub
    operations: TaskOperationsStub
    sessions: SessionHistoryStub
    executor: AgentExecutorStub
    agents: Agents
    authenticator: Authenticator
    streams: Streams
    worker: TranslationThread
    # Signs agent cards; None: they are not signed.
    signer: CardSigner | None
    # The web page as it was built.
    page: BuiltPage
    # Paces long reads.
    pacer: Pacer
    # The bodies that are being read, and the imports.
    uploads: Uploads
    # Readiness checks of the services, by name.
    probes: Mapping[str, Callable[[], Awaitable[bool]]]
    # Returns whether this process takes no new work.
    draining: Callable[[], bool]
