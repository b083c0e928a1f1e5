"""A small room of its own, to migrate: trees, and the fruit that hangs on them."""
