"""Brings a database to the tables that this gpupool needs.

python -m gpupool.queue.store.migrate [URL]     # GPUPOOL_DATABASE_URL without an argument
python -m alembic upgrade head                  # the same, in a checkout
ALEMBIC_CONFIG="$(python -m gpupool.queue.store.migrate --config)" python -m alembic upgrade head
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import structlog
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from psycopg.errors import InsufficientPrivilege
from sqlalchemy.exc import DBAPIError, OperationalError

from gpupool.queue.store.conninfo import Unreadable, secret_in_conninfo
from gpupool.queue.store.errors import Forbidden, StoreError, Unavailable

log = structlog.get_logger()

FOLDER = Path(__file__).parent / "migrations"
CONFIG = Path(__file__).parent / "alembic.ini"
"""For Alembic's own command, where there is no checkout; an image sets ALEMBIC_CONFIG to it."""
VARIABLE = "GPUPOOL_DATABASE_URL"
LOCK = 7021_0001
"""Key of the advisory lock that one migration holds."""


def migrate(url: str) -> None:
    """Migrate to the newest revision, and grant what rights.yaml says; does nothing where that is done, or
    where a newer gpupool has migrated further: `helm rollback` leaves its tables. Raises StoreError."""
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    try:
        command.upgrade(config, "head")
    except OperationalError as error:
        raise Unavailable(error.orig) from error
    except DBAPIError as error:
        if not isinstance(error.orig, InsufficientPrivilege):
            raise
        raise Forbidden(
            error.orig
        ) from error  # tables of another version, and an account that may not change them
    except CommandError as error:
        newest = ScriptDirectory.from_config(config).get_current_head()
        found = str(getattr(error.__cause__, "argument", ""))
        if not found.isdigit() or int(found) <= int(newest or 0):
            raise
        log.warning("database.newer", revision=found, known=newest)


def driver_url(url: str | None) -> str:
    """The URL with the driver that SQLAlchemy is to use."""
    url = url or os.environ.get(VARIABLE) or ""
    scheme, mark, rest = url.partition("://")
    if not mark or scheme.split("+")[0] not in ("postgresql", "postgres"):
        raise StoreError(f"there is no PostgreSQL URL; set {VARIABLE} to postgresql://USER@HOST/DATABASE")
    return f"postgresql+psycopg://{rest}"


def _given(arguments: Sequence[str]) -> str:
    """The URL of the command's argument, if any. Raises StoreError where it has a secret in it."""
    for address in arguments[:1]:
        try:
            secret = secret_in_conninfo(address)
        except Unreadable as error:
            raise StoreError(f"the argument is {error}; give postgresql://USER@HOST/DATABASE") from None
        if secret:
            raise StoreError(f"the argument contains a secret ({secret}); set {VARIABLE} instead")
        return address
    return ""


if __name__ == "__main__":
    if sys.argv[1:] == ["--config"]:
        print(CONFIG)
    else:
        try:
            migrate(_given(sys.argv[1:]))
        except StoreError as error:
            sys.exit(f"migrate: {error}")
