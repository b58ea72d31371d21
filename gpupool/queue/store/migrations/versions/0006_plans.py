"""Plans in force, and jobs whose offers follow them, in 0006.sql.

This revision must not change once it is released: write another one.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    text = Path(__file__).with_name("0006.sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(text.replace("%", "%%"))  # the driver reads % as a parameter


def downgrade() -> None:
    raise NotImplementedError("this revision can't be undone: jobs may have no offers now")
