"""The routes of tasks and sessions in the shapes of kagent."""
