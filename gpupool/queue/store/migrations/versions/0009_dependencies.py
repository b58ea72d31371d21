"""Jobs that come after several jobs and arrays, in 0009.sql.

This revision must not change once it is released: write another one.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0009"
down_revision = "0007"


def upgrade() -> None:
    text = Path(__file__).with_name("0009.sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(text.replace("%", "%%"))  # the driver reads % as a parameter


def downgrade() -> None:
    raise NotImplementedError(
        "this revision can't be undone: gpupool of before knows one dependency of a job"
    )
