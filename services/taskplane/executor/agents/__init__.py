"""Agents that are shipped."""
