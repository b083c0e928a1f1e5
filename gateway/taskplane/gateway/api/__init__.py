"""The routes under /api: tasks and sessions in the shapes of kagent's clients, with additions."""
