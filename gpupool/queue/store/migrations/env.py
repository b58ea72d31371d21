"""What Alembic runs: connects to the database that the queue uses, and migrates it in one transaction.

The URL comes from the caller (`gpupool.queue.store.migrate`), else from GPUPOOL_DATABASE_URL. An advisory
lock lets any number of processes start at once. Rights of the roles are granted in the same transaction. This
module must not define tables.
"""

from __future__ import annotations

from alembic import context
from psycopg import Connection
from sqlalchemy import create_engine, pool, text

from gpupool.queue.store import rights
from gpupool.queue.store.migrate import LOCK, driver_url

url = context.config.get_alembic_option("sqlalchemy.url")
engine = create_engine(driver_url(url), poolclass=pool.NullPool)
with engine.connect() as connection:
    context.configure(connection=connection, version_table="gpu_schema_version")
    with context.begin_transaction():
        connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
        context.run_migrations()
        driver = connection.connection.driver_connection
        assert isinstance(driver, Connection)
        rights.grant(driver)
