"""The name of `taskplane.agents` before release 0.1; it goes with release 0.2."""
