"""Authentication: the checks of Host and Origin, and the schemes that identify a caller."""
