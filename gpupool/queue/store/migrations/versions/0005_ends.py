"""One reason per end, durations of one clock, two parts of an output, callbacks that fail, in 0005.sql.

Rights themselves are granted after each migration (`gpupool.queue.store.rights`).

This revision must not change once it is released: write another one.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    text = Path(__file__).with_name("0005.sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(text.replace("%", "%%"))  # the driver reads % as a parameter


def downgrade() -> None:
    raise NotImplementedError("drop what 0005.sql adds instead")
