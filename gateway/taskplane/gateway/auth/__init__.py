"""The identity of callers: the checks of Host and Origin, and the schemes that identify them."""
