"""All tables of the queue, in 0001.sql.

This revision must not change once it is released: write another one.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    text = Path(__file__).with_name("0001.sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(text.replace("%", "%%"))  # the driver reads % as a parameter


def downgrade() -> None:
    raise NotImplementedError("the first revision can't be undone: drop the database instead")
