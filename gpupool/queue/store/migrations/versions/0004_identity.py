"""Which database this is to the cluster that its jobs run on, in 0004.sql.

This revision must not change once it is released: write another one.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    text = Path(__file__).with_name("0004.sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(text.replace("%", "%%"))  # the driver reads % as a parameter


def downgrade() -> None:
    raise NotImplementedError("drop the table of 0004.sql instead")
