"""The command `taskplane`."""


def main() -> None:
    """Runs the command that the arguments name, and exits with its code."""
    from taskplane.cli.app import app

    app(prog_name="taskplane")


if __name__ == "__main__":
    main()
