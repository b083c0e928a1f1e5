"""The session log in SQL: plain functions over a SQLAlchemy Core `Connection`, the same on both engines."""

from taskplane.sessions.sql.log import SqlSessionLog

__all__ = ["SqlSessionLog"]
