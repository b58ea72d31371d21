"""One word for one moment: a job is dispatched, as its event and its state say.

This revision must not change once it is released: write another one.
"""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
TABLES = ("gpu_jobs", "gpu_job_history", "gpu_attempts")


def upgrade() -> None:
    for table in TABLES:
        op.alter_column(table, "decided_at", new_column_name="dispatched_at")


def downgrade() -> None:
    for table in TABLES:
        op.alter_column(table, "dispatched_at", new_column_name="decided_at")
