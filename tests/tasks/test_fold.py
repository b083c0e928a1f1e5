"""The fold against a naive reference, against a client that applies the stream, and from any snapshot."""

from hypothesis import given
from hypothesis import strategies as st
from tests.tasks.drafting import SCOPE, Log, checkpoint, chunk, message, started, status, status_text

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.tasks import wire
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.fold import fold
from taskplane.tasks.domain.kinds import STATUS, STATUS_TEXT
from taskplane.tasks.domain.task import COMPLETED, FAILED, INPUT_REQUIRED, SUBMITTED, TERMINAL, WORKING, Event

words = st.text("ab ", min_size=1, max_size=3)
steps = st.one_of(
    st.tuples(st.just("partial"), words),
    st.tuples(st.just("close"), words),
    st.tuples(st.just("say"), words),
    st.tuples(st.sampled_from(["progress", "tell", "checkpoint"]), words),
    st.tuples(st.sampled_from(["chunk", "anew", "chunk b", "anew b"]), words),
    st.tuples(st.just("working"), words),
    st.tuples(st.just("user"), words),
    st.tuples(st.sampled_from(["pause", "complete", "fail", "cancel", "lose"]), words),
)


def play(script: list[tuple[str, str]]) -> Log:
    """A log made by the rules from a script; what the rules refuse is simply not in it."""
    log = started(on_orphan=3 if script and script[0][0] == "tell" else 2, max_attempts=9)
    for index, (act, text) in enumerate(script):
        _step(log, act, text, index)
    return log


def _step(log: Log, act: str, text: str, index: int) -> None:
    row = log.row
    assert row is not None
    fresh = f"m{index}"
    read = row.input_generation
    if row.ready_at is not None and act != "user":
        log.now = max(log.now, row.ready_at)
        log.do(commands.Claim(task_uid="u1", process_id="p1", lease_until=log.now))
    if act == "partial":
        log.append(status(WORKING, message(text, row.partial_id or fresh, partial=True)))
    elif act == "close" and row.partial_id:
        log.append(status(WORKING, message(text, row.partial_id)))
    elif act == "say":
        log.append(status(WORKING, message(text, fresh)))
    elif act == "progress":
        line = message(text, fresh)
        line.metadata.fields["kind"].string_value = "status-message"
        log.append(status(WORKING, line))
    elif act == "tell":
        log.append(status_text(text, fresh))
    elif act == "checkpoint":
        log.append(checkpoint(text.encode()))
    elif act.startswith(("chunk", "anew")):
        _write(log, text, act[-1] if act.endswith(" b") else "a", append=act.startswith("chunk"))
    elif act == "working":
        log.append(status(WORKING))
    elif act == "user":
        log.say(text, f"i{index}", fresh)
    elif act == "pause":
        log.append(used(status(INPUT_REQUIRED, message(text, fresh)), text), consumed=read)
    elif act == "complete":
        log.append(used(status(COMPLETED, message(text, fresh)), text), consumed=read)
    elif act == "fail":
        log.append(used(status(FAILED, message(text, fresh)), text), consumed=read)
    elif act == "cancel":
        log.do(commands.Cancel(scope=SCOPE, task_id="t1"))
    elif act == "lose" and row.lease_owner:
        log.do(commands.Orphan(task_uid="u1", process_id="p1", fence=row.fence))


def used(change: pb.Change, text: str) -> pb.Change:
    """The end of a run that used this text up, character by character."""
    figures = change.status.metadata.fields["taskplane.dev/usage"].struct_value.fields
    for character in text:
        figures[character].number_value += 1
    figures["model"].string_value = "none"
    return change


def described(text: str, artifact_id: str, *, append: bool) -> pb.Change:
    """A chunk with metadata and extensions by the characters of its text."""
    change = chunk(text, artifact_id, append=append)
    for character in text:
        change.artifact.artifact.metadata.fields[character].string_value = text
        if character not in change.artifact.artifact.extensions:
            change.artifact.artifact.extensions.append(character)
    return change


def _write(log: Log, text: str, artifact_id: str, *, append: bool) -> None:
    """Write a change; one that appends to an artifact which the task does not have begins it, once it was refused."""
    assert log.row is not None
    there = artifact_id in {each.artifact_id for each in log.task().artifacts}
    held = log.row.lease_owner is not None
    refusal = log.append(described(text, artifact_id, append=append)).refusal
    assert not held or (refusal.reason if refusal else "") == ("ILLEGAL_APPEND" if append and not there else "")
    if append and not there:
        log.append(described(text, artifact_id, append=False))


class Client:
    """A client that knows nothing but the stream: it shows messages by id and texts by artifact."""

    def __init__(self) -> None:
        self.messages: dict[str, str] = {}
        self.artifacts: dict[str, str] = {}
        self.about: dict[str, tuple[dict[str, str], list[str]]] = {}
        self.used: dict[str, float] = {}
        self.state = 0

    def read(self, event: Event) -> None:
        response = wire.event(event).event
        which = response.WhichOneof("payload")
        if which == "task":
            for each in response.task.history:
                self.messages[each.message_id] = each.parts[0].text
            self.state = response.task.status.state
        elif which == "message":
            self.messages[response.message.message_id] = response.message.parts[0].text
        elif which == "artifact_update":
            update = response.artifact_update
            before = self.artifacts.get(update.artifact.artifact_id, "") if update.append else ""
            self.artifacts[update.artifact.artifact_id] = before + update.artifact.parts[0].text
            self._describe(update)
        elif which == "status_update":
            self._status(response.status_update)

    def _describe(self, update: a2a.TaskArtifactUpdateEvent) -> None:
        found = self.about.get(update.artifact.artifact_id) if update.append else None
        metadata, extensions = found or ({}, [])
        for name, value in update.artifact.metadata.fields.items():
            metadata[name] = value.string_value
        for uri in update.artifact.extensions:
            if uri not in extensions:
                extensions.append(uri)
        self.about[update.artifact.artifact_id] = metadata, extensions

    def _status(self, update: a2a.TaskStatusUpdateEvent) -> None:
        self.state = update.status.state
        if "taskplane.dev/lost_attempt" in update.metadata.fields:
            self.artifacts.clear()
            self.about.clear()
        if "taskplane.dev/usage" in update.metadata.fields:
            for name, figure in update.metadata.fields["taskplane.dev/usage"].struct_value.fields.items():
                if figure.HasField("number_value"):
                    self.used[name] = self.used.get(name, 0) + figure.number_value
        said = update.status.message
        if not update.status.HasField("message") or "kind" in said.metadata.fields:
            return
        if "kagent_adk_partial" in said.metadata.fields:
            self.messages[said.message_id] = self.messages.get(said.message_id, "") + said.parts[0].text
        else:
            self.messages[said.message_id] = said.parts[0].text


def shown(task: a2a.Task) -> dict[str, str]:
    messages = {each.message_id: each.parts[0].text for each in task.history}
    said = task.status.message
    if task.status.HasField("message") and "kind" not in said.metadata.fields:
        messages[said.message_id] = "".join(part.text for part in said.parts)
    return messages


def about(task: a2a.Task) -> dict[str, tuple[dict[str, str], list[str]]]:
    return {
        each.artifact_id: (
            {name: value.string_value for name, value in each.metadata.fields.items()},
            list(each.extensions),
        )
        for each in task.artifacts
    }


def usage(task: a2a.Task) -> dict[str, float]:
    if "taskplane.dev/usage" not in task.metadata.fields:
        return {}
    figures = task.metadata.fields["taskplane.dev/usage"].struct_value.fields
    return {name: figure.number_value for name, figure in figures.items()}


@given(st.lists(steps, max_size=25))
def test_the_fold_equals_a_client_that_applies_the_stream(script: list[tuple[str, str]]) -> None:
    """C3, T5, P4: every message once, every artifact whole, the same state, figures of all runs; no status text."""
    log = play(script)
    client = Client()
    for event in log.events:
        client.read(event)
    task = log.task()
    assert shown(task) == client.messages
    assert {each.artifact_id: "".join(p.text for p in each.parts) for each in task.artifacts} == client.artifacts
    assert about(task) == client.about
    assert task.status.state == client.state == log.state
    assert usage(task) == client.used
    ids = [each.message_id for each in task.history]
    assert len(ids) == len(set(ids))
    partial = [each for each in task.history if "kagent_adk_partial" in each.metadata.fields]
    assert not partial
    if log.state in TERMINAL:
        assert "kagent_adk_partial" not in task.status.message.metadata.fields


@given(st.lists(steps, max_size=25), st.data())
def test_the_fold_may_start_at_any_snapshot(script: list[tuple[str, str]], data: st.DataObject) -> None:
    """Folding the head and then the tail is folding the whole."""
    log = play(script)
    cut = data.draw(st.integers(0, len(log.events)))
    snapshot = a2a.Task.FromString(fold(a2a.Task(), log.events[:cut]).SerializeToString())
    assert fold(snapshot, log.events[cut:]) == log.task()


@given(st.lists(steps, max_size=25), st.data())
def test_known_messages_of_status_events_give_the_same_fold(script: list[tuple[str, str]], data: st.DataObject) -> None:
    """All known messages or some of them; from the start and from a snapshot."""
    log = play(script)
    known = {at: said for at, said in log.said.items() if data.draw(st.booleans())}
    cut = data.draw(st.integers(0, len(log.events)))
    for said in (log.said, known):
        snapshot = a2a.Task.FromString(fold(a2a.Task(), log.events[:cut], said).SerializeToString())
        assert snapshot == fold(a2a.Task(), log.events[:cut])
        assert fold(snapshot, log.events[cut:], said) == log.task()


def test_the_message_of_every_status_is_known_except_if_it_queues_a_task_again() -> None:
    log = play(
        [
            ("partial", "a"),
            ("progress", "b"),
            ("tell", "b"),
            ("working", "c"),
            ("chunk", "d"),
            ("lose", "e"),
            ("say", "f"),
        ]
    )
    kinds = (STATUS, STATUS_TEXT)
    known = {event.generation for event in log.events if event.kind in kinds and event.state != SUBMITTED}
    assert log.said.keys() == known
    assert len(known) > 3


@given(st.lists(steps, max_size=25))
def test_generations_have_no_gap_and_the_row_agrees_with_its_log(script: list[tuple[str, str]]) -> None:
    """C1: 1, 2, 3, ...; the row's figures are those of the events."""
    log = play(script)
    row = log.row
    assert row is not None
    assert [event.generation for event in log.events] == list(range(1, row.generation + 1))
    assert row.event_bytes == sum(len(event.payload) for event in log.events)
    assert row.message_generation == max(event.generation for event in log.events if event.speaks)
    assert row.input_generation == max(e.generation for e in log.events if e.invocation_id is not None)
    assert (row.terminal_generation is not None) == (row.state in TERMINAL)


def test_appended_plain_texts_of_an_artifact_become_one_part() -> None:
    """W3: a task of many chunks is one text, whatever it was cut into."""
    log = started()
    log.append(chunk("a"))
    for _ in range(500):
        log.append(chunk("b", append=True))
    artifact = log.task().artifacts[0]
    assert len(artifact.parts) == 1
    assert artifact.parts[0].text == "a" + "b" * 500


def test_a_part_with_a_name_of_its_own_is_not_merged() -> None:
    log = started()
    log.append(chunk("a"))
    named = chunk("b", append=True)
    named.artifact.artifact.parts[0].filename = "b.txt"
    log.append(named)
    log.append(chunk("c", append=True))
    assert [part.text for part in log.task().artifacts[0].parts] == ["a", "b", "c"]


def test_a_fold_does_not_change_the_stored_events() -> None:
    log = started()
    log.append(status(WORKING, message("a", "m1", partial=True)))
    before = [event.payload for event in log.events]
    change = pb.Change()
    change.CopyFrom(status(WORKING, message("b", "m1", partial=True)))
    log.append(change)
    log.task()
    assert [event.payload for event in log.events][: len(before)] == before
    assert not change.status.task_id


def test_a_repeated_message_is_in_the_history_once() -> None:
    """T6: the first occurrence of a message id counts."""
    log = started()
    for said in ("m1", "m2", "m1", "m3"):
        log.append(status(WORKING, message("x", said)))
    assert [each.message_id for each in log.task().history] == ["m-user", "m1", "m2"]
