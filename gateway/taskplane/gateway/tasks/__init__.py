"""The routes of the log and the artifacts of a task."""
