"""The AgentExecutor service: maps each RPC to the part that implements it. No decisions."""

from typing import Final

from taskplane.agents.loading import Agents
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.executor.v1 import executor_pb2_grpc as pb_grpc
from taskplane.executor.background import BackgroundTasks
from taskplane.executor.deletion import delete_session, delete_task
from taskplane.executor.erasure import erase_owner
from taskplane.executor.extended_cards import extended_card
from taskplane.executor.runs.ports import Ports
from taskplane.executor.turns.rates import SendRates
from taskplane.executor.turns.rewinds import Rewinds
from taskplane.executor.turns.submit import Submits
from taskplane.runtime.interceptors import Context
from taskplane.runtime.policy import Access
from taskplane.runtime.principal import caller

_EXECUTOR: Final = "/taskplane.api.executor.v1.AgentExecutor/"

POLICY: Final[dict[str, Access]] = {
    _EXECUTOR + "Submit": Access.USER,
    _EXECUTOR + "ListAgents": Access.PUBLIC,
    _EXECUTOR + "GetAgentCard": Access.PUBLIC,
    _EXECUTOR + "GetExtendedAgentCard": Access.USER,
    _EXECUTOR + "DeleteTask": Access.USER,
    _EXECUTOR + "DeleteSession": Access.USER,
    _EXECUTOR + "RewindSession": Access.USER,
    _EXECUTOR + "UndoRewind": Access.USER,
    _EXECUTOR + "ApplySession": Access.USER,
    _EXECUTOR + "EraseOwner": Access.SERVICE,
}


class AgentExecutor(pb_grpc.AgentExecutorServicer):
    """The AgentExecutor service."""

    def __init__(
        self,
        submits: Submits,
        rewinds: Rewinds,
        agents: Agents,
        ports: Ports,
        background: BackgroundTasks,
        rates: SendRates,
    ) -> None:
        self._submits = submits
        self._rates = rates
        self._rewinds = rewinds
        self._agents = agents
        self._ports = ports
        self._background = background

    async def Submit(self, request: pb.SubmitRequest, context: Context) -> pb.SubmitResponse:
        who = caller()
        self._rates.take(who)
        return await self._submits.submit(request, who)

    async def ListAgents(self, request: pb.ListAgentsRequest, context: Context) -> pb.ListAgentsResponse:
        agents = self._agents.by_name.values()
        return pb.ListAgentsResponse(agents=[pb.Agent(name=each.name, card=each.card) for each in agents])

    async def GetAgentCard(self, request: pb.GetAgentCardRequest, context: Context) -> pb.GetAgentCardResponse:
        return pb.GetAgentCardResponse(card=self._agents.named(request.agent).card)

    async def GetExtendedAgentCard(
        self, request: pb.GetExtendedAgentCardRequest, context: Context
    ) -> pb.GetExtendedAgentCardResponse:
        card = await extended_card(self._agents.named(request.agent), caller())
        return pb.GetExtendedAgentCardResponse(card=card)

    async def DeleteTask(self, request: pb.DeleteTaskRequest, context: Context) -> pb.DeleteTaskResponse:
        deleting = delete_task(self._ports.store, self._ports.sessions, self._ports.reconciler, request.task_id)
        await self._background.serve(deleting, caller(), name=f"deletion of task {request.task_id}")
        return pb.DeleteTaskResponse()

    async def DeleteSession(self, request: pb.DeleteSessionRequest, context: Context) -> pb.DeleteSessionResponse:
        deleting = delete_session(self._ports.store, self._ports.sessions, request.context_id)
        await self._background.serve(deleting, caller(), name=f"deletion of session {request.context_id}")
        return pb.DeleteSessionResponse()

    async def RewindSession(self, request: pb.RewindSessionRequest, context: Context) -> pb.RewindSessionResponse:
        return await self._rewinds.rewind_session(request, caller())

    async def UndoRewind(self, request: pb.UndoRewindRequest, context: Context) -> pb.UndoRewindResponse:
        return await self._rewinds.undo_rewind(request, caller())

    async def ApplySession(self, request: pb.ApplySessionRequest, context: Context) -> pb.ApplySessionResponse:
        await self._rewinds.apply_session(request.context_id, caller())
        return pb.ApplySessionResponse()

    async def EraseOwner(self, request: pb.EraseOwnerRequest, context: Context) -> pb.EraseOwnerResponse:
        return await erase_owner(self._ports.store, self._ports.sessions)
