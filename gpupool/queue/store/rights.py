"""What each part of the queue may read and write: roles of the database, and rights.yaml.

After each migration the account that owns the tables makes roles and rights as rights.yaml has them, as far
as it may. A part connects with a login that is a member of its role, or with an account that takes the role
on. Rules for rows are triggers of the migrations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import structlog
import yaml
from psycopg import sql
from psycopg.rows import tuple_row

from gpupool.queue.store.database import LIVENESS, translated

log = structlog.get_logger()

PART_OF = {
    "api": "api",
    "dispatcher": "dispatcher",
    "relay": "dispatcher",
    "janitor": "dispatcher",
    "executor": "executor",
}
"""Role of `gpupool serve` -> the part of the queue that it belongs to."""


class DatabaseRight(NamedTuple):
    """One right of a role."""

    role: str
    table: str
    verb: str
    """select, insert, update or delete."""
    column: str
    """Empty: the whole table."""


@cache
def wanted() -> frozenset[DatabaseRight]:
    """rights.yaml."""
    given: Mapping[str, Mapping[str, Mapping[str, list[str] | None]]]
    given = yaml.safe_load(Path(__file__).with_name("rights.yaml").read_text("utf-8"))
    return frozenset(
        DatabaseRight(role, table, verb, column)
        for role, tables in given.items()
        for table, verbs in tables.items()
        for verb, columns in verbs.items()
        for column in columns or ("",)
    )


def roles() -> list[str]:
    """Those of rights.yaml."""
    return sorted({right.role for right in wanted()})


def role_of(part: str) -> str:
    """The database's role for a part of the queue."""
    return f"gpupool_{part}"


def present(connection: psycopg.Connection[Any]) -> set[DatabaseRight]:
    """What the roles were granted in the schema of the queue's tables."""
    rows = connection.cursor(row_factory=tuple_row).execute(_PRESENT, {"roles": roles()})
    return {DatabaseRight(*row) for row in rows}


def grant(connection: psycopg.Connection[Any]) -> None:
    """Make roles and rights as rights.yaml has them, within the caller's transaction; nothing for an account
    that does not own the tables, and no roles where it may make none: then the log says what an administrator
    runs."""
    cursor = connection.cursor(row_factory=tuple_row)
    owns, account, makes, superuser = cursor.execute(_ACCOUNT).fetchone() or (False, "", False, False)
    if not owns:
        return
    there = {row[0] for row in cursor.execute(_ROLES, {"roles": roles()})}
    missing = [role for role in roles() if role not in there]
    if missing and makes:
        for role in missing:
            _run(cursor, _CREATE_ROLE, role=role)
            if not superuser:
                _run(cursor, "GRANT {role} TO {account}", role=role, account=account)
        there.update(missing)
    elif missing:
        statements = [f'CREATE ROLE {role} NOLOGIN; GRANT {role} TO "{account}";' for role in missing]
        log.warning("database.roles_missing", account=account, an_administrator_runs=statements)
    columns = {(row[0], row[1]) for row in cursor.execute(_COLUMNS)}
    tables = {table for table, _ in columns}
    target = {
        right
        for right in wanted()
        if right.role in there
        and (right.table in tables if not right.column else (right.table, right.column) in columns)
    }
    before = present(connection)
    for verb, rights in (
        ("REVOKE {what} ON {table} FROM {role}", before - target),
        (_GRANT, target - before),
    ):
        for role, table, what in _grouped(rights):
            _run(cursor, verb, role=role, table=table, what=what)
    for role in sorted(there):
        if cursor.execute(_LACKS_SCHEMA, {"role": role}).fetchone():
            _run(cursor, "GRANT USAGE ON SCHEMA {schema} TO {role}", role=role, schema=_schema(cursor))
    if cursor.execute(_PUBLIC_CREATES).fetchone():
        _run(cursor, "REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC", schema=_schema(cursor))


def role_for(url: str, parts: Collection[str]) -> str | None:
    """The role that a process with these roles of `serve` takes on; None where they are of several parts, or
    its account may not: then it has its account's rights. Raises StoreError."""
    first, *others = {PART_OF[part] for part in parts}
    if others:
        return None
    role = role_of(first)
    with translated(), psycopg.connect(url, autocommit=True, **LIVENESS) as connection:
        try:
            _run(connection.cursor(), "SET ROLE {role}", role=role)
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidParameterValue):
            account = connection.info.user
            statement = f'GRANT {role} TO "{account}";'
            log.warning(
                "database.role_not_taken", role=role, account=account, an_administrator_runs=statement
            )
            return None
    return role


def _grouped(rights: Iterable[DatabaseRight]) -> Iterator[tuple[str, str, sql.Composable]]:
    """(role, table, what is granted), the columns of a verb together."""
    columns: dict[tuple[str, str, str], list[str]] = {}
    for right in sorted(rights):
        columns.setdefault(right[:3], []).append(right.column)
    for (role, table, verb), names in columns.items():
        if "" in names:
            yield role, table, sql.SQL(verb.upper())
        if listed := [sql.Identifier(name) for name in names if name]:
            yield role, table, sql.SQL(verb.upper() + " ({})").format(sql.SQL(", ").join(listed))


def _run(cursor: psycopg.Cursor[Any], statement: str, **names: str | sql.Composable) -> None:
    quoted = {name: sql.Identifier(text) if isinstance(text, str) else text for name, text in names.items()}
    cursor.execute(sql.SQL(statement).format(**quoted))


def _schema(cursor: psycopg.Cursor[Any]) -> str:
    return str((cursor.execute("SELECT current_schema()").fetchone() or ("public",))[0])


_GRANT = "GRANT {what} ON {table} TO {role}"
_CREATE_ROLE = """DO $$ BEGIN CREATE ROLE {role} NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; -- made for another database of this server
END $$"""
_ACCOUNT = """
SELECT pg_has_role(c.relowner, 'USAGE'), current_user, r.rolcreaterole OR r.rolsuper, r.rolsuper
FROM pg_class c, pg_roles r WHERE c.oid = to_regclass('gpu_jobs') AND r.rolname = current_user"""
_ROLES = "SELECT rolname FROM pg_roles WHERE rolname = ANY(%(roles)s)"
_COLUMNS = """
SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
    AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())"""
_PRESENT = """
SELECT r.rolname, t.relname, lower(t.privilege_type), t.attname FROM (
    SELECT c.relname, c.relnamespace, '' AS attname, (aclexplode(c.relacl)).*
    FROM pg_class c WHERE c.relkind = 'r'
    UNION ALL
    SELECT c.relname, c.relnamespace, a.attname, (aclexplode(a.attacl)).*
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relkind = 'r') t
JOIN pg_roles r ON r.oid = t.grantee
WHERE r.rolname = ANY(%(roles)s)
    AND t.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())"""
_LACKS_SCHEMA = "SELECT 1 WHERE NOT has_schema_privilege(%(role)s, current_schema(), 'USAGE')"
_PUBLIC_CREATES = """
SELECT 1 FROM pg_namespace n, aclexplode(n.nspacl) a
WHERE n.nspname = current_schema() AND a.grantee = 0 AND a.privilege_type = 'CREATE'
    AND pg_has_role(n.nspowner, 'USAGE')"""
