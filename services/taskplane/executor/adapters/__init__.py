"""Agents that are written with other libraries, as agents of the port: one module each, imported when one is found."""
