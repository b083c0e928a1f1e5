"""The routes of sessions beyond those of kagent."""
