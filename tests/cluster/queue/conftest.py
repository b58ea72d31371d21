"""The queue's database beside the control plane."""

from __future__ import annotations

from tests.queue.api.conftest import api
from tests.queue.conftest import database, database_url, postgres

__all__ = ["api", "database", "database_url", "postgres"]
