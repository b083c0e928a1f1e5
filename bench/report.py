"""The tables, for the terminal and for docs/benchmarks.md."""

from pathlib import Path

from bench.pages import MESSAGES, TASKS, WARM, Pages

Figures = dict[str, dict[str, float]]

ONE, FOUR = "taskplane, one process", "taskplane, four processes"
MEMORY, SQLITE = "SDK in memory", "SDK on SQLite"

INTRODUCTION = """# Benchmarks

taskplane compared with the server of the official A2A SDK (a2a-sdk 1.3.0, with its in-memory store and its SQLite
store), on one machine in one run, on the same HTTP stack. Every event of taskplane is committed and synced before it is
sent (the last line of the section shows `synchronous` as the database reports it; 2 is FULL); the SDK's in-memory store
keeps nothing. Both sides parse every event and check its bytes. Absolute figures on a shared machine mean little;
compare the ratios. `make bench` writes this page.

A send is a message that is answered with a completed task. The agents of both sides stream the text word by word: a
single word (the minimum), or ten. Rows without a binding are over JSON-RPC. The client of gRPC is the
official stub, with a channel for each connection.
"""


WHERE = """## Where the time of a blocking send goes

A send is seven calls between the services, five transactions and 13 statements. Four of the transactions come one
after the other: the message and its task (at the same time, in two databases), the agent's message, its copy in the
session, and the end. A message that names its session is saved there before its task is created. If the session
exists, one statement looks for the message id and a call reads the history. More words change little: all pieces that
wait for the same commit become one event, while the SDK handles each word separately. In one process Python takes the
time, evenly spread over HTTP and JSON, the calls between services, checks and conversions in the stores, the
executor, and group commit. The event loop and the two threads that write to the databases share one interpreter, so
that their times add up. With one connection each of the four commits waits for the disk, and the caches of the
processor are cold afterwards. In four processes a send takes about three times the processor time of one process. A
third of it is gRPC: a call with an empty handler takes 0.7 ms, a stream 0.9. The rest is smaller batches, since calls
come one by one, and the switches between processes and threads.
"""


PAGES = "## Reading a long session"
BEHIND_PAGES = f"""A session of {MESSAGES:,} messages in {TASKS:,} tasks, read over HTTP from one process on SQLite
files. `first` is the first read of the session by a new process that has read another session before; `then` is the
median of the {WARM} reads after it. The content of a page is looked up by index; the order and the ids of all messages
are read once by a process and cached as long as they are valid.
"""


SHARING = "## One user beside others"
BEHIND_SHARING = """
Twenty tasks run at once; with tasks of a minute, a hundred. One user may not take the last quarter of these slots, so
nobody waits for the end of another user's task. Readers of a long log read in short pieces, all together one piece at
a time, and pause while calls are in flight. A turn reads only new entries of its session. A client that does not read
costs a page of the log and its translation. The allocator of the C library returns freed memory when it can
([operations.md](operations.md#memory)).
"""


TURNS = "## Turns with a language model"
BEHIND_TURNS = """
The same agent, written with pydantic-ai, on taskplane and on the server of the official SDK with its in-memory store.
The model is a program that streams tokens over HTTP at a steady pace, each with the time at which it was sent.
taskplane commits and syncs each token before a client sees it; tokens that arrive meanwhile are joined into one
event.

All turns begin at once. Their answers begin at random moments of the interval, or in the last rows at the same moment.
Only tokens count that are sent while all turns are streaming. The time until all turns were streaming, and the largest
memory, are listed separately. The processor time is that of the server under test, per token; it depends less on other
programs than the latency does. A connection to the model belongs to one turn. After the turn the library keeps at most
100 connections open, for five seconds.
"""
BEHIND_TOKENS = """
A profile of the interpreter on a busy machine, with 200 turns that get 400 tokens a second: where its time goes, in
percent.

| taskplane | | SDK in memory | |
|---|---|---|---|
| library of the model (HTTP, JSON, objects, events) | 66 | library of the model | 48 |
| gateway: translation 5, the write to the socket 5 | 11 | SDK: queues, tasks, JSON, spans, event streams | 35 |
| watches, and the calls between the services | 8 | the write to the socket | 5 |
| runs and the call that appends for all of them | 6 | the event loop itself | 11 |
| commits: the thread that writes 4, the event loop 1 | 5 | | |
| reads, the event loop itself | 4 | | |

While one append is under way, the appends of all other runs wait and become one call and one transaction of five
statements (BEGIN, a SELECT of the rows of its tasks, an INSERT, an UPDATE, COMMIT). Watchers take events from the
commit and do not read the database.

| for each token | 1 turn | 16 turns | 200 turns |
|---|---|---|---|
| calls between the services (`AppendEvents`), transactions, syncs | 1 | 0.2-0.3 | 0.01-0.12 |
| statements | 5 | 1-1.5 | 0.05-0.6 |
| rows written: of events, and as many of tasks | 1 | 0.7-1 | 0.5-1 |
| JSON read (from the model), JSON written (for the client) | 1, 1 | 1, 0.7-1 | 1, 0.5-1 |

The smaller figures are from a busy machine: the longer a commit takes, the more tokens are joined. If the tokens of
all turns come at the same moments, each token seems to wait for the work on all tokens: the event loop takes all of
them from one step to the next, so that no token is done before nearly all are. This is concluded from the design of
the loop, not measured.

Tried and rejected: a shorter switch interval of the interpreter. Beside a busy event loop, a transaction takes about
18 ms, of which it waits 13 for the interpreter; with an interval of 1 ms instead of 5 it takes 8. But a send becomes
3 to 8 % more expensive, and with 16 or 60 turns tokens did not come measurably sooner.
"""


def table(figures: Figures) -> list[str]:
    """Rows of Markdown: figures of each side, and how many times better taskplane is."""
    lines = [
        f"| | {ONE} | {FOUR} | {MEMORY} | {SQLITE} "
        "| one process / in memory | one process / SQLite | four processes / in memory |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, by in figures.items():
        lower = name.startswith("ms")

        def ratio(side: str, peer: str, by: dict[str, float] = by, lower: bool = lower) -> str:
            value = by[peer] / by[side] if lower else by[side] / by[peer]
            return f"{value:.1f}x"

        cells = [f"{by[side]:,.1f}" for side in (ONE, FOUR, MEMORY, SQLITE)]
        cells += [ratio(ONE, MEMORY), ratio(ONE, SQLITE), ratio(FOUR, MEMORY)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def version_table(figures: Figures) -> list[str]:
    """Rows of Markdown: figures of this version and of the one before, and how many times better this one is."""
    lines = ["| | one process | before | ratio | four processes | before | ratio |", "|---|---|---|---|---|---|---|"]
    for name, by in figures.items():
        cells: list[str] = []
        for side in (ONE, FOUR):
            now, before = by[side], by[f"before, {side}"]
            ratio = before / now if name.startswith("ms") else now / before
            cells += [f"{now:,.1f}", f"{before:,.1f}", f"{ratio:.2f}x"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def size_table(sizes: dict[str, dict[int, float]]) -> list[str]:
    """Rows of Markdown: bytes bound as SQL parameters per chunk of 64 bytes."""
    counts = sorted({count for by in sizes.values() for count in by})
    lines = ["| bytes bound per event | " + " | ".join(f"{count:,} chunks" for count in counts) + " |"]
    lines.append("|---|" + "---|" * len(counts))
    for side, by in sizes.items():
        cells = [f"{by[count]:,.0f}" if count in by else "" for count in counts]
        lines.append(f"| {side} | " + " | ".join(cells) + " |")
    return lines


def write(figures: Figures, sizes: dict[str, dict[int, float]], setting: str, target: Path | None) -> None:
    """Prints the tables, and writes the page where `target` names one."""
    text = "\n".join([*table(figures), "", *size_table(sizes), "", f"{setting}.", "", WHERE])
    print("\n" + text)
    if target is not None:
        target.write_text(f"{INTRODUCTION}\n{text}")


def pages_table(pages: Pages) -> list[str]:
    """Rows of Markdown: milliseconds of each read."""
    lines = ["| `GET /api/sessions/{session}/...` | ms first | ms then |", "|---|---|---|"]
    return lines + [f"| `{route}` | {times.cold:,.0f} | {times.warm:,.0f} |" for route, times in pages.items()]


def write_pages(pages: Pages, setting: str, target: Path | None) -> None:
    """Prints the section about them, and puts it into the page where `target` names one; the rest of it stays."""
    section = "\n".join([PAGES, "", BEHIND_PAGES, *pages_table(pages), "", f"{setting}.", ""])
    print("\n" + section)
    if target is not None:
        target.write_text(with_section(target.read_text(), section))


def write_sharing(rows: dict[str, str], setting: str, target: Path | None) -> None:
    """Prints the section about one user beside others, and puts it into the page where `target` names one."""
    _write_rows(SHARING, BEHIND_SHARING, rows, setting, target)


def write_turns(rows: dict[str, str], setting: str, target: Path | None) -> None:
    """Prints the section about turns with a model, and puts it into the page where `target` names one."""
    _write_rows(TURNS, BEHIND_TURNS, rows, setting, target, after=BEHIND_TOKENS)


def _write_rows(
    heading: str, text: str, rows: dict[str, str], setting: str, target: Path | None, *, after: str = ""
) -> None:
    table = ["| measured over HTTP, one process on SQLite files | |", "|---|---|"]
    table += [f"| {name} | {value} |" for name, value in rows.items()]
    section = "\n".join([heading, text, *table, "", f"{setting}.", after])
    print("\n" + section)
    if target is not None:
        target.write_text(with_section(target.read_text(), section))


def with_section(page: str, section: str) -> str:
    """The page with this section in place of the one with its heading, or at its end."""
    heading = section.partition("\n")[0]
    before, found, rest = page.partition(f"{heading}\n")
    if not found:
        return f"{page.rstrip()}\n\n{section}"
    _, mark, after = rest.partition("\n## ")
    return before + section + mark + after
