"""The service of operators: the tasks of all owners of their tenant. It validates, converts and calls the log."""

from typing import Final

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2_grpc as pb_grpc
from taskplane.runtime.interceptors import Context
from taskplane.runtime.policy import Access
from taskplane.runtime.principal import caller
from taskplane.runtime.times import set_time
from taskplane.tasks import request_checks, wire
from taskplane.tasks.domain.overview import Overview, Percentiles
from taskplane.tasks.domain.task import FAILED, STATES, Scope
from taskplane.tasks.pages import TenantFilter, TenantTask
from taskplane.tasks.serving import is_unserved
from taskplane.tasks.session_wire import MAX_CODE, MAX_ERROR
from taskplane.tasks.store import OperationsLog
from taskplane.tasks.wire import Wire

_SERVICE: Final = "/taskplane.api.tasks.v1.TaskOperations/"
_PAGE: Final = 50
_EVENTS: Final = 100
# The approximate number of bytes of the events of one page.
_PAGE_BYTES: Final = 4 * 1024 * 1024

POLICY: Final[dict[str, Access]] = {
    _SERVICE + "GetOverview": Access.OPERATOR,
    _SERVICE + "ListTenantTasks": Access.OPERATOR,
    _SERVICE + "GetTenantTask": Access.OPERATOR,
}


class TaskOperations(pb_grpc.TaskOperationsServicer):
    """The service TaskOperations. Calls see the tasks of the caller's tenant."""

    def __init__(self, log: OperationsLog, records: Wire, *, lease_ttl: float) -> None:
        """`lease_ttl`: seconds that leases last, from which it follows when they were renewed."""
        self._log = log
        self._wire = records
        self._lease_ttl = lease_ttl

    async def GetOverview(self, request: pb.GetOverviewRequest, context: Context) -> pb.GetOverviewResponse:
        return _overview(await self._log.overview(caller().tenant, self._lease_ttl))

    async def ListTenantTasks(self, request: pb.ListTenantTasksRequest, context: Context) -> pb.ListTenantTasksResponse:
        request_checks.list_tenant_tasks(request)
        who = caller()
        query = TenantFilter(
            # A document may have no state.
            states=sorted({int(state) for state in request.states} or {0, *STATES}),
            agent=request.agent,
            owner=request.owner,
            executor=request.executor,
            page_size=request.page_size or _PAGE,
            page_token=request.page_token,
        )
        page = await self._log.tenant_tasks(Scope(who.tenant, who.owner, who.actor), query)
        response = pb.ListTenantTasksResponse(next_page_token=page.next_page_token)
        for each in page.tasks:
            self._fill(response.tasks.add(), each)
        return response

    async def GetTenantTask(self, request: pb.GetTenantTaskRequest, context: Context) -> pb.GetTenantTaskResponse:
        request_checks.get_tenant_task(request)
        found = await self._log.tenant_task(caller().tenant, request.task_id)
        after, limit = request.after_generation, request.limit or _EVENTS
        response = pb.GetTenantTaskResponse()
        if after < found.row.generation:
            page = await self._log.read_after(found.row.uid, after, limit, _PAGE_BYTES, gaps=True)
            response.events.extend(wire.event(event) for event in page.events)
            if page.events and page.events[-1].generation < page.row.generation:
                response.next_after = page.events[-1].generation
        self._fill(response.task, found)
        row = found.row
        response.task.record.unserved = await is_unserved(self._log, row)
        if row.state == FAILED and row.terminal_generation:
            page = await self._log.read_after(row.uid, row.terminal_generation - 1, 1, gaps=True)
            response.task.cause = next(map(wire.cause, page.events), "")
        return response

    def _fill(self, message: pb.TenantTask, found: TenantTask) -> None:
        row = found.row
        self._wire.fill(message.record, row)
        message.executor = row.lease_owner or ""
        if found.lease_until is not None:
            set_time(message.lease_until, found.lease_until)
        if row.ready_at is not None:
            set_time(message.queued_at, row.ready_at)
        message.error = found.failure.text[:MAX_ERROR]
        message.error_code = found.failure.code[:MAX_CODE]
        message.asked = found.asked


def _overview(found: Overview) -> pb.GetOverviewResponse:
    response = pb.GetOverviewResponse(
        tasks=[
            pb.AgentCount(agent=agent, state=state, count=count)  # type: ignore[arg-type]
            for (agent, state), count in sorted(found.tasks.items())
        ],
        queue=[pb.QueueFigures(**each._asdict()) for each in found.queue],
        executors=[pb.ExecutorFigures(**each._asdict()) for each in found.executors],
        capacity=pb.CapacityFigures(
            slots=found.capacity.slots,
            held=found.capacity.held,
            held_by_others=found.capacity.held_by_others,
            holders=[pb.CapacityHolder(owner=owner, slots=slots) for owner, slots in found.capacity.holders],
        ),
        uncopied=found.uncopied,
        oldest_uncopied=found.oldest_uncopied,
        durations=_percentiles(found.durations),
        queued=_percentiles(found.queued),
        bounded=found.bounded,
    )
    set_time(response.at, found.at)
    set_time(response.since, found.since)
    for at, begun, ended, failed in found.minutes:
        set_time(response.minutes.add(begun=begun, ended=ended, failed=failed).at, at)
    return response


def _percentiles(found: Percentiles | None) -> pb.Percentiles | None:
    return None if found is None else pb.Percentiles(**found._asdict())
