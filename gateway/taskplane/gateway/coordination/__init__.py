"""Reads and changes that involve both stores, the same for every route and binding."""
