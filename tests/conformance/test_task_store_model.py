"""The life of tasks against a small model: what Hypothesis thinks of doing to them, on both engines. C1, C6 to C11."""

import asyncio
import dataclasses
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule, run_state_machine_as_test
from tests.conformance.task_log import (
    ADA,
    HOUR,
    Plane,
    changed,
    checkpoint,
    chunk,
    message,
    only,
    status,
    status_text,
)

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import PlaneError
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.task import (
    CANCELED,
    COMPLETED,
    FAIL_ON_ORPHAN,
    FAILED,
    INPUT_REQUIRED,
    RERUN_ON_ORPHAN,
    RESUME_ON_ORPHAN,
    SUBMITTED,
    TERMINAL,
    WORKING,
    Row,
)
from taskplane.tasks.store import Renewed

T = TypeVar("T")
MAX_ATTEMPTS = 3
EXAMPLES = {"sqlite": 25, "postgresql": 8}


@dataclasses.dataclass
class Model:
    """The expected task, modelled as simply as possible."""

    row: Row
    policy: int
    state: int = SUBMITTED
    generation: int = 1
    fence: int = 0
    holder: str | None = None
    ready: bool = True
    delayed: bool = False
    started: bool = False
    attempt: int = 0
    said: int = 1
    read: int = 0
    open_text: bool = False
    artifacts: set[str] = dataclasses.field(default_factory=set[str])
    number: int = 0
    last: tuple[commands.Append, commands.Appended] | None = None
    checkpoint: int | None = None
    superseded: bool = False
    steered: int = 0
    # Marks since its end.
    marks: int = 0
    keys: list[commands.AddMessage] = dataclasses.field(default_factory=list[commands.AddMessage])

    def lose(self) -> None:
        self.fence += 1
        self.holder, self.started, self.number = None, False, 0

    def close_text(self) -> None:
        if self.open_text:
            self.generation += 1
            self.open_text = False

    def end(self, state: int) -> None:
        self.close_text()
        self.generation += 1
        self.state, self.holder, self.ready = state, None, False


class Life(RuleBasedStateMachine):
    """Rules do one thing to one task and compare the answer with the model's; the invariant compares the tasks."""

    plane: Plane
    loop: asyncio.AbstractEventLoop
    tasks = Bundle("tasks")

    def __init__(self) -> None:
        super().__init__()
        self.touched: Model | None = None
        self.keys = self.steered = 0

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def submit(self, op: commands.Operation) -> commands.Answer | PlaneError:
        (answer,) = self.wait(self.plane.log.submit_all([op]))
        return answer

    @rule(
        target=tasks,
        leased=st.booleans(),
        policy=st.sampled_from([FAIL_ON_ORPHAN, RERUN_ON_ORPHAN, RESUME_ON_ORPHAN]),
        limited=st.booleans(),
    )
    def create(self, leased: bool, policy: int, limited: bool) -> Any:
        op = self.plane.creation(
            claim_for="p1" if leased else "",
            changes=[],
            on_orphan=policy,
            max_attempts=MAX_ATTEMPTS,
            queue_limit=1 if limited else None,
            pause_limit=None if limited else 1,
        )
        # A session of its own, to be rewound alone.
        op = dataclasses.replace(op, context_id=op.task_id)
        model = Model(only(commands.Created, self.submit(op)).row, policy)
        if leased:
            model.fence, model.holder, model.ready, model.attempt = 1, "p1", False, 1
        self.touched = model
        return multiple(model)

    @rule(model=tasks, process=st.sampled_from(["p1", "p2"]))
    def claim(self, model: Model, process: str) -> None:
        until = self.wait(self.plane.log.now()) + HOUR
        answer = self.submit(commands.Claim(task_uid=model.row.uid, process_id=process, lease_until=until))
        assert (answer is not None) == (model.ready and not model.delayed)
        if answer is not None:
            model.fence += 1
            model.attempt += 1
            model.holder, model.ready, model.started, model.number = process, False, False, 0
        self.touched = model

    @rule(
        model=tasks,
        written=st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=3),
        stale=st.booleans(),
    )
    def append(self, model: Model, written: list[tuple[str, bool]], stale: bool) -> None:
        artifacts, illegal = set(model.artifacts), False
        for artifact_id, append in written:
            illegal |= append and artifact_id not in artifacts
            artifacts.add(artifact_id)
        changes = [chunk("x", artifact_id, append=append) for artifact_id, append in written]
        if self._item(model, changes, stale=stale, illegal=illegal):
            model.artifacts = artifacts

    @rule(model=tasks, final=st.booleans())
    def stream(self, model: Model, final: bool) -> None:
        said = message("so far", f"{model.row.id}-text", partial=not final)
        if self._item(model, [status(WORKING, said)]):
            model.state, model.open_text = WORKING, not final

    @rule(model=tasks, text=st.booleans())
    def tell(self, model: Model, text: bool) -> None:
        change = status_text("at work", f"{model.row.id}-line") if text else checkpoint(b"here")
        if self._item(model, [change]):
            if text:
                model.state = WORKING
            else:
                model.checkpoint = model.generation

    @rule(model=tasks)
    def time_out(self, model: Model) -> None:
        queued, paused = model.ready, model.state == INPUT_REQUIRED
        limit = model.row.queue_limit if queued else model.row.pause_limit if paused else None
        found = self.wait(self.plane.log.overdue(1000))
        assert (model.row.uid in found) == (limit is not None)
        answer = self.submit(commands.TimeOut(task_uid=model.row.uid))
        self.touched = model
        assert (answer is not None) == (limit is not None)
        if answer is not None:
            model.lose()
            model.end(FAILED)

    @rule(model=tasks, state=st.sampled_from([COMPLETED, FAILED, INPUT_REQUIRED]), reads=st.booleans())
    def rest(self, model: Model, state: int, reads: bool) -> None:
        consumed = model.said if reads else 0
        pending = state != FAILED and max(consumed, model.read) < model.said
        self._item(model, [status(state)], consumed=consumed, pending=pending, rests=state)

    def _item(
        self,
        model: Model,
        changes: list[pb.Change],
        *,
        stale: bool = False,
        illegal: bool = False,
        consumed: int = 0,
        pending: bool = False,
        rests: int = 0,
    ) -> bool:
        """Appends, and says whether the model thinks that it was taken."""
        op = commands.Append(
            actor="agent:demo",
            task_uid=model.row.uid,
            fence=model.fence - 1 if stale else model.fence,
            number=model.number + 1,
            changes=changed(*changes),
            consumed_generation=consumed,
        )
        answer = only(commands.Appended, self.submit(op))
        self.touched = model
        repeat = model.last is not None and (model.last[0].fence, model.last[0].number) == (op.fence, op.number)
        if repeat:
            assert model.last is not None and answer.last_generation == model.last[1].last_generation
            return False
        reason = None
        if model.state in TERMINAL:
            reason = "TERMINAL"
        elif stale or model.holder is None:
            reason = "FENCED"
        elif illegal:
            reason = "ILLEGAL_APPEND"
        elif pending:
            reason = "PENDING_INPUT"
        assert (answer.refusal.reason if answer.refusal else None) == reason
        assert answer.input_generation == model.said
        if reason:
            return False
        first = model.generation + 1
        model.number += 1
        if rests:
            model.end(rests)
            model.read = consumed or model.read if rests != FAILED else model.read
            if rests == INPUT_REQUIRED:
                model.lose()
                model.attempt = 0
        else:
            model.generation += len(changes)
            model.started = True
        assert (answer.first_generation, answer.last_generation) == (first, model.generation)
        model.last = op, answer
        return True

    @rule(model=tasks)
    def repeat(self, model: Model) -> None:
        if model.last is not None:
            op, answer = model.last
            again = only(commands.Appended, self.submit(op))
            # The time of an item is known as long as no event came after it.
            known = answer.created_at if answer.last_generation == model.generation else 0
            assert again == dataclasses.replace(answer, input_generation=model.said, created_at=known)

    @rule(model=tasks)
    def send(self, model: Model) -> None:
        self.keys += 1
        op = self.plane.saying(model.row, f"{model.row.id}-k{self.keys}")
        answer = self.submit(op)
        self.touched = model
        if model.superseded or model.state in TERMINAL:
            expected = "SUPERSEDED" if model.superseded else "TERMINAL"
            assert isinstance(answer, PlaneError) and answer.reason == expected
            return
        model.generation += 1
        model.said = model.generation
        if model.state == INPUT_REQUIRED:
            model.state, model.ready, model.delayed, model.attempt = SUBMITTED, True, False, 0
        assert only(commands.Added, answer).generation == model.generation
        model.keys.append(op)

    @rule(model=tasks, other=st.booleans())
    def send_again(self, model: Model, other: bool) -> None:
        if model.keys:
            op = model.keys[-1]
            answer = self.submit(dataclasses.replace(op, request_hash=b"other") if other else op)
            if other:
                assert isinstance(answer, PlaneError) and answer.reason == "KEY_REUSED"
            else:
                assert not only(commands.Added, answer).added

    @rule(model=tasks)
    def cancel(self, model: Model) -> None:
        answer = self.submit(commands.Cancel(scope=ADA, task_id=model.row.id))
        self.touched = model
        if model.state in TERMINAL:
            assert isinstance(answer, PlaneError) and answer.reason == "TERMINAL"
            return
        assert isinstance(answer, commands.Done)
        model.lose()
        model.end(CANCELED)

    @rule(model=tasks, cut=st.booleans(), stale=st.booleans())
    def mark(self, model: Model, cut: bool, stale: bool) -> None:
        if not stale:
            self.steered += 1
        session = model.row.context_id
        marked = self.wait(self.plane.mark(self.steered, *([f"{model.row.id}-i1"] if cut else []), context_id=session))
        self.touched = model
        if self.steered <= model.steered or cut == model.superseded:
            assert not marked
            model.steered = max(self.steered, model.steered)
            return
        assert marked == [model.row.id]
        if cut and model.state in (SUBMITTED, WORKING):
            model.lose()
            model.end(CANCELED)
        model.generation += 1
        model.steered, model.superseded = self.steered, cut
        model.marks += model.state in TERMINAL

    @rule(model=tasks, stale=st.booleans())
    def renew(self, model: Model, stale: bool) -> None:
        fence = model.fence - 1 if stale else model.fence
        until = self.wait(self.plane.log.now()) + HOUR
        held = [(model.row.uid, fence)]
        (answer,) = self.wait(self.plane.log.renew(model.holder or "p1", held, until))
        yours = model.holder is not None and not stale
        assert answer == Renewed(yours, model.said if yours else 0)

    @rule(model=tasks, released=st.booleans(), stale=st.booleans())
    def lose(self, model: Model, released: bool, stale: bool) -> None:
        fence = model.fence - 1 if stale else model.fence
        op = commands.Orphan(task_uid=model.row.uid, process_id=model.holder or "p1", fence=fence, released=released)
        answer = self.submit(op)
        self.touched = model
        assert (answer is not None) == (model.holder is not None and not stale)
        if answer is None:
            return
        attempts = model.attempt - 1 if released else model.attempt
        started = model.started
        model.lose()
        if (started and model.policy == FAIL_ON_ORPHAN) or attempts >= MAX_ATTEMPTS:
            model.end(FAILED)
            return
        if started:
            model.close_text()
            model.generation += 1
            model.state = SUBMITTED
            if model.policy == RERUN_ON_ORPHAN:
                model.artifacts.clear()
        model.attempt, model.ready, model.delayed = attempts, True, attempts > 1

    @invariant()
    def the_task_is_what_the_model_says(self) -> None:
        model = self.touched
        if model is None:
            return
        row = self.wait(self.plane.check(model.row))
        assert (row.state, row.generation, row.fence, row.lease_owner, row.attempt) == (
            model.state,
            model.generation,
            model.fence,
            model.holder,
            model.attempt,
        )
        assert (row.input_generation, row.ready_at is not None) == (model.said, model.ready)
        assert (row.partial_generation is not None) == model.open_text
        assert row.checkpoint_generation == model.checkpoint
        waits = row.queue_limit if model.ready else row.pause_limit if row.state == INPUT_REQUIRED else None
        assert (row.limit_at is not None) == (waits is not None)
        _, task = self.wait(self.plane.log.get(ADA, row.id))
        assert {artifact.artifact_id for artifact in task.artifacts} == model.artifacts
        ended_at = model.generation - model.marks if model.state in TERMINAL else None
        assert (row.terminal_generation, row.superseded) == (ended_at, model.superseded)


async def test_tasks_live_as_the_model_says(plane: Plane) -> None:
    """C1, C6, C7, C8, C9, C10, C11: claim, append, repeat, pause, answer, cancel, lose, time out, send, rewind."""
    loop_here = asyncio.get_running_loop()

    class Here(Life):
        loop = loop_here

    Here.plane = plane
    limits = settings(
        max_examples=EXAMPLES[plane.engine.dialect.name],
        stateful_step_count=40,
        deadline=None,
        database=None,
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much),
    )
    await asyncio.to_thread(run_state_machine_as_test, Here, settings=limits)
