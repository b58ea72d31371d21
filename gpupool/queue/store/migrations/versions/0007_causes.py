"""Why jobs were cancelled that came after another, in 0007.sql.

This revision must not change once it is released: write another one.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    text = Path(__file__).with_name("0007.sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(text.replace("%", "%%"))  # the driver reads % as a parameter


def downgrade() -> None:
    raise NotImplementedError("drop the columns of 0007.sql instead; gpupool of before does without them")
