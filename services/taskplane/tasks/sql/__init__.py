"""The task log in SQL: plain functions over a SQLAlchemy Core `Connection`, the same on both engines."""

from taskplane.tasks.sql.log import SqlTaskLog
from taskplane.tasks.sql.meta import draw_epoch

__all__ = ["SqlTaskLog", "draw_epoch"]
