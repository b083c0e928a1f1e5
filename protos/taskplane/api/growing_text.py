"""The extension of A2A by texts that grow: the URI that asks for them, and the mark of a text that comes twice."""

from typing import Final

EXTENSION: Final = "https://taskplane.dev/extensions/growing-text/v1"
"""The URI that activates it. Streams have the pieces of a text while it grows, and each whole message at once."""
ENDS: Final = "taskplane.dev/ends"
"""The key in the metadata of a status update with a message that comes again with the end or pause of the run, which
follows."""
