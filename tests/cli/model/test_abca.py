"""A client shows the state of the server, and no turn twice, after any sequence of its actions and of repeated events.

The test compares the model with a simple server. It has turns that are tasks, direct answers, questions and their
answers; rewinds that succeed, fail, break or continue with a new turn; undos, reloads, and repeated events.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from taskplane.cli.model.session_tasks import TaskInfo
from taskplane.cli.model.transcript import Transcript
from taskplane.client.events import classify, read_message, read_task
from taskplane.client.states import State

Json = dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """One turn in the state of the server. `task`: empty for a direct answer."""

    number: int
    task: str
    asks: bool

    def messages(self, *, tasks: bool = True) -> list[Json]:
        return [self.message(role, tasks=tasks) for role in ("user", "agent")]

    def message(self, role: str, *, tasks: bool = True) -> Json:
        return {
            "messageId": f"{role}-{self.number}",
            "role": role,
            "parts": [{"text": f"{role} {self.number}"}],
            "metadata": {"kagent_invocation_id": f"i{self.number}"},
            **({"taskId": self.task} if tasks and self.task else {}),
        }


class Client(RuleBasedStateMachine):
    """The actions of a client, and the answers of the server."""

    names_tasks: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[Turn] = []
        self.undo: list[tuple[Turn, ...]] = []
        self.began = 0
        self.undoable = 0
        self.steered = False
        self.past: list[Json] = []
        self.conversation = Transcript("c")

    @property
    def tasks(self) -> dict[str, State]:
        """The tasks that are not superseded, oldest first."""
        cut = {turn.task for rewound in self.undo for turn in rewound}
        return {t.task: "input-required" if t.asks else "completed" for t in self.turns if t.task and t.task not in cut}

    @property
    def waits(self) -> bool:
        """Whether the last turn asked a question, and its task still takes the answer."""
        return bool(self.turns) and self.turns[-1].asks and self.turns[-1].task in self.tasks

    def whole(self, state: str = "completed") -> Json:
        history = [message for turn in self.turns for message in turn.messages(tasks=self.names_tasks)]
        return {"id": "c", "contextId": "c", "status": {"state": state}, "history": history}

    def task(self, task_id: str, state: State) -> Json:
        history = [message for turn in self.turns if turn.task == task_id for message in turn.messages()]
        return {"id": task_id, "contextId": "c", "status": {"state": state}, "history": history}

    def receive(self, *events: Json) -> None:
        self.past += events
        for event in events:
            self.conversation.apply(classify(event))

    def begin(self, kind: str) -> Turn:
        """The server takes a new turn; from now on earlier rewinds stay."""
        self.began += 1
        if self.undo:
            self.undo = [tuple(turn for rewound in self.undo for turn in rewound)]
            self.undoable = 0
        task = "" if kind == "direct" else self.turns[-1].task if self.waits else f"t{self.began}"
        return Turn(self.began, task, kind == "ask")

    def stream(self, turn: Turn, opened: bool, repeated: bool) -> None:
        """The events of a turn; `opened`: with a full task first; `repeated`: all of them twice."""
        self.turns.append(turn)
        if not turn.task:
            self.receive(*[{"message": turn.message("agent", tasks=False)}] * (1 + repeated))
            return
        started = self.task(turn.task, "submitted")
        del started["history"][-1]
        end = "input-required" if turn.asks else "completed"
        piece = {**turn.message("agent"), "parts": [{"text": "age"}]}
        piece["metadata"] = {"kagent_invocation_id": f"i{turn.number}", "kagent_adk_partial": True}
        head = {"taskId": turn.task, "contextId": "c"}
        events: list[Json] = [{"task": started}] if opened else []
        events.append({"statusUpdate": {**head, "status": {"state": "working", "message": piece}}})
        events.append({"statusUpdate": {**head, "status": {"state": "working", "message": turn.message("agent")}}})
        events.append({"statusUpdate": {**head, "status": {"state": end, "message": turn.message("agent")}}})
        self.receive(*events, *(events if repeated else ()))

    @rule(kind=st.sampled_from(["task", "task", "direct", "ask"]), opened=st.booleans(), repeated=st.booleans())
    def send(self, kind: str, opened: bool, repeated: bool) -> None:
        turn = self.begin("task" if self.waits and kind == "direct" else kind)
        said = {"messageId": f"user-{turn.number}", "role": "user", "parts": [{"text": f"user {turn.number}"}]}
        self.conversation.say(read_message(said))
        self.stream(turn, opened, repeated)

    @precondition(lambda self: any(turn.can_rewind for turn in self.conversation.turns))
    @rule(
        data=st.data(),
        end=st.sampled_from(["answered", "answered", "failed", "broken", "goes on"]),
        late=st.booleans(),
        shape=st.sampled_from(["wrapper", "kind", "task-like"]),
    )
    def rewind(self, data: st.DataObject, end: str, late: bool, shape: str) -> None:
        offered = [turn for turn in self.conversation.turns if turn.can_rewind]
        invocation = data.draw(st.sampled_from(offered)).message.invocation_id
        place = next(index for index, turn in enumerate(self.turns) if f"i{turn.number}" == invocation)
        text = self.conversation.rewind(invocation)
        assert text == f"user {self.turns[place].number}"
        prefix = [message["messageId"] for turn in self.turns[:place] for message in turn.messages()]
        self.shows(prefix)
        if late and self.past:
            self.again(data)
            self.shows(prefix)
        if end == "failed":
            self.conversation.apply(classify({"task": self.whole("failed")}), answers_rewind=True)
        elif end == "broken":
            self.conversation.restore()
        else:
            self.undo.append(tuple(self.turns[place:]))
            self.turns, self.steered, self.undoable = self.turns[:place], True, self.undoable + 1
            begun = self.begin("task") if end == "goes on" else None
            if begun is not None:
                self.conversation.say(read_message(begun.message("user", tasks=False)))
            answer = self.whole()
            if shape == "kind":
                answer = {**answer, "kind": "task"}
            like = shape == "task-like" and answer["history"]
            self.conversation.apply(
                classify(answer if shape == "kind" or like else {"task": answer}), answers_rewind=True
            )
            if begun is not None:
                self.stream(begun, opened=False, repeated=False)
        assert not self.conversation.rewinding

    @precondition(lambda self: self.undo and self.undoable)
    @rule(loads=st.booleans())
    def undo_rewind(self, loads: bool) -> None:
        """If the history has no task ids, load the tasks again."""
        self.turns += self.undo.pop()
        self.undoable -= 1
        history = [read_message(message) for turn in self.turns for message in turn.messages(tasks=self.names_tasks)]
        self.conversation.undone(history, [TaskInfo(*item) for item in self.tasks.items()])
        if loads or not self.names_tasks:
            self.conversation.load(map(read_task, self.listed()))

    @rule()
    def reload(self) -> None:
        self.conversation = Transcript("c", tasks=[TaskInfo(*item) for item in self.tasks.items()])
        self.conversation.load(map(read_task, self.listed()))
        self.past.clear()

    def listed(self) -> list[Json]:
        first = [self.whole()] if self.steered or any(not turn.task for turn in self.turns) else []
        return [*first, *(self.task(*item) for item in self.tasks.items())]

    @precondition(lambda self: self.past)
    @rule(data=st.data())
    def again(self, data: st.DataObject) -> None:
        """An old event arrives once more."""
        for event in data.draw(st.lists(st.sampled_from(self.past), min_size=1, max_size=3)):
            if not self.once(event):
                self.conversation.apply(classify(event))

    def once(self, event: Json) -> bool:
        """No stream repeats a piece of a text, nor begins with the past of a task that has not ended."""
        waits = self.tasks.get(event.get("task", {}).get("id", "")) == "input-required"
        return waits or "kagent_adk_partial" in str(event)

    def shows(self, expected: list[str]) -> None:
        assert [message.id for message in self.conversation.messages] == expected

    @invariant()
    def it_shows_the_state_of_the_server(self) -> None:
        self.shows([message["messageId"] for turn in self.turns for message in turn.messages()])
        assert [task.id for task in self.conversation.session.tasks] == list(self.tasks)


class ClientOfTerseServer(Client):
    """The same client with a server that has no task ids in its history."""

    names_tasks = False


Client.TestCase.settings = ClientOfTerseServer.TestCase.settings = settings(
    max_examples=100, stateful_step_count=20, deadline=None
)
TestAbca = Client.TestCase
TestAbcaTerse = ClientOfTerseServer.TestCase
