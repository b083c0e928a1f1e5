"""The routes under /api: tasks and sessions as kagent's clients know them, and what they need beside that."""
