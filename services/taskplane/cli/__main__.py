"""The command `taskplane`."""

import sys

from taskplane.cli import exits


def main() -> None:
    """Runs the command that the arguments name, and exits with its code."""
    from taskplane.cli.app import app
    from taskplane.cli.delivery import delivered

    def command() -> int:
        app(prog_name="taskplane")
        return exits.OK

    sys.exit(delivered(command))


if __name__ == "__main__":
    main()
