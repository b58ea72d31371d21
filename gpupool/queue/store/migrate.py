"""Brings a database to the tables that this gpupool needs.

    python -m gpupool.queue.store.migrate [URL]     # GPUPOOL_DATABASE_URL without an argument
    python -m alembic upgrade head                  # the same, where a pyproject.toml or alembic.ini says so

This module must not hold SQL.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from alembic import command
from alembic.config import Config

from gpupool.queue.store.errors import StoreError, Unavailable

FOLDER = Path(__file__).parent / "migrations"
VARIABLE = "GPUPOOL_DATABASE_URL"
LOCK = 7021_0001
"""Key of the advisory lock that one migration holds."""


def migrate(url: str) -> None:
    """Migrate to the newest revision; does nothing where that is done."""
    import sqlalchemy.exc

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    try:
        command.upgrade(config, "head")
    except sqlalchemy.exc.OperationalError as error:
        raise Unavailable(error.orig) from error


def driver_url(url: str | None) -> str:
    """The URL with the driver that SQLAlchemy is to use."""
    url = url or os.environ.get(VARIABLE) or ""
    scheme, mark, rest = url.partition("://")
    if not mark or scheme.split("+")[0] not in ("postgresql", "postgres"):
        raise StoreError(f"there is no PostgreSQL URL; set {VARIABLE} to postgresql://USER@HOST/DATABASE")
    return f"postgresql+psycopg://{rest}"


if __name__ == "__main__":
    migrate((sys.argv[1:] or [os.environ.get(VARIABLE, "")])[0])
