"""The commands `taskplane session` and their options."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from taskplane.cli.arguments import URL, Format, Limit, SessionId, TargetFile, TokenEnv, Url, Yes, filled
from taskplane.cli.options import Options

session = typer.Typer(
    help="List, show, rewind, export and import sessions.", no_args_is_help=True, rich_markup_mode=None
)

Before = Annotated[
    str, typer.Option("--before", metavar="INVOCATION", callback=filled, help="Invocation id of the turn.")
]


@session.command("list")
def list_command(
    search: Annotated[
        str, typer.Option("--search", metavar="TEXT", help="Only sessions with this text in the title.")
    ] = "",
    limit: Limit = 50,
    url: Url = URL,
    token_env: TokenEnv = "",
    output: Format = "text",
) -> None:
    """List your sessions, newest first."""
    from taskplane.cli.session import list_sessions

    raise typer.Exit(list_sessions(Options(url, token_env, output), search, limit))


@session.command("show")
def show(session_id: SessionId, url: Url = URL, token_env: TokenEnv = "", output: Format = "text") -> None:
    """Show a session with its turns and tasks."""
    from taskplane.cli.session import show_session

    raise typer.Exit(show_session(Options(url, token_env, output), session_id))


@session.command("rename")
def rename(
    session_id: SessionId,
    title: Annotated[str, typer.Argument(metavar="TITLE")],
    url: Url = URL,
    token_env: TokenEnv = "",
    output: Format = "text",
) -> None:
    """Give a session another title."""
    from taskplane.cli.session import rename_session

    raise typer.Exit(rename_session(Options(url, token_env, output), session_id, title))


@session.command("rewind")
def rewind(
    session_id: SessionId,
    before: Before = "",
    before_message: Annotated[
        int | None, typer.Option("--before-message", metavar="N", min=1, help="Number of the turn, counted from 1.")
    ] = None,
    url: Url = URL,
    token_env: TokenEnv = "",
    output: Format = "text",
) -> None:
    """Undo a turn and all later ones, and print your message of that turn. `session show` lists the turns."""
    from taskplane.cli.rewind import rewind_session

    raise typer.Exit(rewind_session(Options(url, token_env, output), session_id, before, before_message or 0))


@session.command("undo")
def undo(session_id: SessionId, url: Url = URL, token_env: TokenEnv = "", output: Format = "text") -> None:
    """Undo the last rewind, as long as no new turn began."""
    from taskplane.cli.rewind import undo_rewind

    raise typer.Exit(undo_rewind(Options(url, token_env, output), session_id))


@session.command("fork")
def fork(
    session_id: SessionId,
    before: Before = "",
    title: Annotated[str, typer.Option("--title", metavar="TITLE", help="Title of the new session.")] = "",
    url: Url = URL,
    token_env: TokenEnv = "",
    output: Format = "text",
) -> None:
    """Create a session from the messages of another session, or from its messages before a turn."""
    from taskplane.cli.rewind import fork_session

    raise typer.Exit(fork_session(Options(url, token_env, output), session_id, before, title))


@session.command("export")
def export(
    session_id: SessionId,
    file: TargetFile = None,
    form: Annotated[
        Literal["ndjson", "json", "markdown"],
        typer.Option("--format", help="ndjson can be imported; json is one document; markdown is a transcript."),
    ] = "ndjson",
    url: Url = URL,
    token_env: TokenEnv = "",
    output: Format = "text",
) -> None:
    """Export a session with all its tasks and logs, or a transcript of it."""
    from taskplane.cli.session_file import export_session

    raise typer.Exit(export_session(Options(url, token_env, output), session_id, file, form))


@session.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File of an exported session; -: stdin.")],
    new_id: Annotated[
        str, typer.Option("--id", metavar="ID", callback=filled, help="New id for the session; default: its old id.")
    ] = "",
    url: Url = URL,
    token_env: TokenEnv = "",
    output: Format = "text",
) -> None:
    """Import an exported session, completely or not at all."""
    from taskplane.cli.session_file import import_session

    raise typer.Exit(import_session(Options(url, token_env, output), file, new_id))


@session.command("delete")
def delete(
    session_id: SessionId, yes: Yes = False, url: Url = URL, token_env: TokenEnv = "", output: Format = "text"
) -> None:
    """Delete a session with its tasks."""
    from taskplane.cli.session import delete_session

    raise typer.Exit(delete_session(Options(url, token_env, output), session_id, yes))
