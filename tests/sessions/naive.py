"""The effective history once more, slowly: a reference that keeps whole worlds of sets, one for every place of the log,
and looks everything up by scanning; and logs to try it on."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from taskplane.sessions.domain.deleting import listed_lines
from taskplane.sessions.domain.history import InEffect
from taskplane.sessions.domain.replay import Line, Name
from taskplane.sessions.domain.session import EVENT, HIDDEN, MESSAGE, OUTCOME, PUSHED, REWIND, UNDO, VOID


def each_line(listed: Sequence[str]) -> str:
    return "".join(f"{name}\n" for name in listed)


@dataclass(frozen=True)
class World:
    """The cuts at some point, the pushed history that counts, and the world that an undo returns to."""

    cut: frozenset[Name] = frozenset()
    # Numbers of events that stand where something is out, whatever their invocation is.
    events: frozenset[int] = frozenset()
    # Sightings of messages of the pushed history that are out.
    messages: frozenset[int] = frozenset()
    replaced: frozenset[Name] = frozenset()
    push: int = 0
    before: "World | None" = None
    # How many sightings there were when it began.
    since: int = 0


@dataclass
class Naive:
    lines: Sequence[Line]
    # Every sighting of a turn in order: who, and in which pushed history (0: in an entry).
    sightings: list[tuple[Name, int]] = field(default_factory=list[tuple[Name, int]])
    worlds: list[World] = field(default_factory=list[World])
    # How many sightings there were when each event came.
    events: dict[int, int] = field(default_factory=dict[int, int])
    # The sighting with which a turn was begun anew: those before are forgotten.
    anew: dict[Name, int] = field(default_factory=dict[Name, int])

    def place(self, name: Name, push: int) -> int | None:
        anywhere = [i for i, (who, _) in enumerate(self.sightings) if who == name and i >= self.anew.get(name, 0)]
        in_push = [i for i in anywhere if self.sightings[i][1] == push != 0]
        return next(iter(in_push or anywhere), None)

    def out(self, world: World) -> frozenset[Name]:
        return self.still(world.cut, world)

    def still(self, names: Collection[Name], world: World) -> frozenset[Name]:
        """Without the turns that were begun anew since that world began."""
        return frozenset(name for name in names if self.anew.get(name, 0) <= world.since)

    def deleted(self) -> set[Name]:
        listed = [line.listed.split("\n") for line in self.lines if line.kind == VOID]
        return {name for each in listed for name in each if name and not name.startswith(HIDDEN)}

    def hidden(self) -> set[str]:
        listed = [line.listed.split("\n") for line in self.lines if line.kind == VOID]
        return {name.removeprefix(HIDDEN) for each in listed for name in each if name.startswith(HIDDEN)}

    def voided(self) -> set[Name]:
        return self.void_for_now() | self.deleted()

    def void_for_now(self) -> set[Name]:
        last = {line.target: line for line in self.lines if line.kind == VOID and not line.listed}
        return {target for target, line in last.items() if not line.off}

    def see(self, name: Name, push: int, world: World) -> None:
        self.sightings.append((name, push))
        self.worlds.append(world)

    def run(self) -> World:
        self.sightings.clear()
        self.worlds.clear()
        self.events.clear()
        self.anew.clear()
        void_now: set[Name] = set()
        world = World()
        void = self.void_for_now()
        for line in self.lines:
            if line.kind == REWIND and line.off:
                continue
            fresh = self.place(line.name, 0) is None
            entered = len(self.sightings)
            self.see(line.group, 0, world)
            self.see(line.name, 0, world)
            if line.kind == EVENT:
                self.events[line.seq] = entered
            if line.kind == VOID and line.listed:
                continue
            if line.kind == VOID and not line.off:
                void_now.add(line.target)
            elif line.kind == VOID and line.target in void_now:
                void_now.remove(line.target)
                if line.target in self.out(world):
                    self.see(line.target, 0, world)
                    self.anew[line.target] = len(self.sightings) - 1
            if line.name in void:
                continue
            if line.kind == PUSHED:
                names = line.listed.split("\n")[:-1]
                own: set[Name] = {line.name} if fresh else set()
                others = {who for who, _ in self.sightings} - own - set(names)
                world = World(replaced=frozenset(others), push=line.seq, since=entered)
                for index, name in enumerate(names):
                    self.see(name or -(line.seq * 1000 + index), line.seq, world)
            elif line.kind == UNDO and world.before is not None:
                world = world.before
            elif line.kind in (REWIND, EVENT) and line.target:
                start = self.place(line.target, world.push)
                if start is not None and start < entered:
                    was, then = world, self.worlds[start]
                    known = {who for who, _ in self.sightings[:entered]}
                    gone = {who for who in known if start <= (self.place(who, then.push) or 0) < entered}
                    events = then.events | {seq for seq, at in self.events.items() if start <= at < entered}
                    messages = then.messages | {
                        i
                        for i, (who, where) in enumerate(self.sightings)
                        if where == then.push != 0 and start <= self.sightings.index((who, where)) < entered
                    }
                    cut, replaced = self.out(then) | gone, self.still(then.replaced, then)
                    world = replace(then, cut=cut, replaced=replaced, events=events, messages=messages)
                    world = replace(world, before=was, since=entered)
        return world

    def has(self, line: Line, world: World) -> bool:
        out = self.out(world) | self.voided()
        if line.seq in world.events:
            return False
        replaced = self.still(world.replaced, world)
        return line.seq >= world.push and line.name not in out | replaced and line.group not in out

    def of_turns(self) -> list[Line]:
        return [
            line for line in self.lines if line.kind in (MESSAGE, OUTCOME) or (line.kind == EVENT and not line.target)
        ]

    def cut(self) -> list[str]:
        world = self.run()
        found: list[str] = []
        for name in dict.fromkeys(line.invocation_id for line in self.of_turns() if line.invocation_id):
            pushed = any(who == name and where == world.push != 0 for who, where in self.sightings)
            if pushed and name not in self.out(world) | self.voided():
                continue
            if not any(self.has(line, world) for line in self.of_turns() if line.name == name):
                found.append(name)
        return found

    def cut_and_voided(self) -> list[str]:
        voided = self.voided()
        of_voided = {line.name for line in self.of_turns() if voided & {line.name, line.group}}
        return [name for name in self.cut() if name in of_voided]

    def stands(self, name: str) -> bool:
        cut = self.cut()
        world = self.run()
        out = {*self.out(world), *self.still(world.replaced, world), *self.voided(), *cut}
        return self.place(name, 0) is not None and name not in out

    def undo_error(self) -> str:
        world = self.run()
        if world.before is None:
            return "NOTHING_TO_UNDO"
        for line in self.of_turns():
            for name in {line.name, line.group} - self.voided():
                place = self.place(name, world.push)
                assert place is not None
                if place >= world.since + 2:
                    return "TOO_LATE_TO_UNDO"
        return ""

    def effective(self) -> list[tuple[int, tuple[int, ...]]]:
        world = self.run()
        shown: list[tuple[tuple[int, int, int], int]] = []
        for line in self.lines:
            says = line.speaks if line.kind in (MESSAGE, OUTCOME) else line.kind == EVENT and not line.target
            if says and self.has(line, world):
                first = self.events[line.seq] if line.kind == EVENT else self.place(line.group, 0)
                assert first is not None
                shown.append(((first, line.generation, line.seq), line.seq))
        result: list[tuple[int, tuple[int, ...]]] = [(seq, ()) for _, seq in sorted(shown)]
        if world.push:
            listed = [(i, who) for i, (who, where) in enumerate(self.sightings) if where == world.push]
            gone = self.voided()
            hidden = self.hidden()
            kept = (
                n
                for n, (i, who) in enumerate(listed)
                if i not in world.messages and who not in gone and f"{world.push} {n}" not in hidden
            )
            result.insert(0, (world.push, tuple(kept)))
        return result


INVOCATIONS = ["a", "b", "c", "d", "e"]
names = st.sampled_from(INVOCATIONS)


def deletion(seq: int, turns: Sequence[str], hidden: Sequence[tuple[int, int]] = ()) -> Line:
    """The void of a deleted task with these turns."""
    target = turns[0] if turns else "document"
    return Line(
        seq, VOID, target, task_id=f"task{seq}", target=target, listed=listed_lines(turns, hidden, ["an entry"])
    )


@st.composite
def lines(draw: st.DrawFn) -> list[Line]:
    kinds = st.sampled_from([MESSAGE] * 6 + [OUTCOME, EVENT, EVENT, REWIND, REWIND, UNDO, VOID, VOID, PUSHED])
    found: list[Line] = []
    for seq in range(1, draw(st.integers(1, 14)) + 1):
        kind = draw(kinds)
        steers = kind in (REWIND, UNDO, PUSHED)
        if kind == VOID and draw(st.integers(0, 2)) == 0:
            hidden = draw(st.lists(st.tuples(st.integers(1, seq), st.integers(0, 3)), max_size=2))
            found.append(deletion(seq, draw(st.lists(names, max_size=2, unique=True)), hidden))
            continue
        found.append(
            Line(
                seq,
                kind,
                invocation_id=draw(st.one_of(st.just(f"own{seq}") if steers else names, names, st.just(""))),
                task_invocation_id=draw(st.one_of(st.just(""), names)) if kind == MESSAGE else "",
                generation=draw(st.integers(0, 4)) if kind == MESSAGE else 0,
                target=draw(st.one_of(names, st.sampled_from([f"own{n}" for n in range(1, seq + 1)])))
                if kind in (REWIND, VOID) or (kind == EVENT and draw(st.booleans()))
                else "",
                off=kind in (VOID, REWIND) and draw(st.integers(0, 3)) == 0,
                speaks=kind == MESSAGE or (kind == OUTCOME and draw(st.booleans())),
                listed=each_line(draw(st.lists(st.one_of(names, st.just("")), max_size=4))) if kind == PUSHED else "",
            )
        )
    return found


def plain(found: Sequence[InEffect]) -> list[tuple[int, tuple[int, ...]]]:
    return [(one.seq, tuple(one.kept)) for one in found]
