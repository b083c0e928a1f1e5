"""`taskplane session rewind`, `undo` and `fork`."""

from taskplane.cli import exits
from taskplane.cli.connection import Connection, run
from taskplane.cli.model.cut import Turn, turns
from taskplane.cli.options import Options
from taskplane.cli.render import print_json
from taskplane.cli.report import note, report_error
from taskplane.cli.session import show_row
from taskplane.client.events import read_message
from taskplane.client.failures import Missing
from taskplane.runtime.errors import Invalid


def rewind_session(options: Options, session_id: str, before: str, number: int) -> int:
    """Cut a turn and all later turns: the turn with the invocation `before`, or with `number`, from 1.

    The text of the turn goes to stdout, so that it can be edited and sent again.
    """
    if bool(before) == bool(number):
        refusal = Invalid(
            "Name the turn in exactly one way.",
            reason="WHICH_TURN",
            suggestion="Use --before INVOCATION or --before-message N; `taskplane session show` lists both.",
        )
        return report_error(refusal, options.output)

    async def main(connection: Connection) -> int:
        session = await connection.session_id(session_id)
        said = await connection.sessions.messages(session)
        turn = _named(turns(map(read_message, said)), before, number)
        invocation = turn.message.invocation_id
        done = await connection.sessions.rewind(session, invocation)
        if options.output == "text":
            print(turn.message.text)
            note(f"  rewound; {_count(done['messages'])} left; to undo it: taskplane session undo {session}")
        else:
            cut = {"number": turn.number, "invocationId": invocation, "text": turn.message.text}
            print_json({**done, "cut": cut}, options.output)
        return exits.OK

    return run(options, main)


def undo_rewind(options: Options, session_id: str) -> int:
    """Undo the newest rewind of a session, as long as no new turn has begun."""

    async def main(connection: Connection) -> int:
        session = await connection.session_id(session_id)
        done = await connection.sessions.undo_rewind(session)
        if options.output == "text":
            show_row(options, done["session"])
            note(f"  undone; {_count(done['messages'])} in effect")
        else:
            print_json(done, options.output)
        return exits.OK

    return run(options, main)


def fork_session(options: Options, session_id: str, before: str, title: str) -> int:
    """Create a session with the effective history, or its part before a turn; the old session is not changed."""

    async def main(connection: Connection) -> int:
        session = await connection.session_id(session_id)
        show_row(options, await connection.sessions.fork(session, before=before, title=title))
        return exits.OK

    return run(options, main)


def _named(known: list[Turn], before: str, number: int) -> Turn:
    """Return the turn with this invocation or number. Raise `Missing`."""
    found = [turn for turn in known if turn.message.invocation_id == before or turn.number == number]
    if not found:
        what = f"the number {number}" if number else f"the invocation {before}"
        raise Missing(f"No turn in effect has {what}; there are {len(known)}.", reason="INVOCATION_NOT_FOUND")
    return found[0]


def _count(messages: list[object]) -> str:
    return "1 message" if len(messages) == 1 else f"{len(messages)} messages"
