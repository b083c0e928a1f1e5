"""The command `taskplane`."""

import sys

from taskplane.cli import exits


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    from taskplane.cli.app import app
    from taskplane.cli.stdout import run_and_flush

    def command() -> int:
        app(prog_name="taskplane")
        return exits.OK

    sys.exit(run_and_flush(command))


if __name__ == "__main__":
    main()
