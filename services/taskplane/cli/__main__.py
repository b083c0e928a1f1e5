"""The command `taskplane`."""

from taskplane.cli import exits


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    from taskplane.cli.app import app
    from taskplane.cli.stdout import run_and_flush
    from taskplane.runtime.process import leave

    def command() -> int:
        app(prog_name="taskplane")
        return exits.OK

    try:
        code = run_and_flush(command)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else exits.OK if ended.code is None else exits.FAILED
    leave(code)


if __name__ == "__main__":
    main()
