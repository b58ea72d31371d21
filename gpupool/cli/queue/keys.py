"""`gpupool keys`: API keys of the job queue: create, list, revoke.

Works on the queue's database directly, so that creating the first key needs no key. A secret is printed once
and stored nowhere; the database has its hash.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpupool.cli.output import FormatOption, print_json, print_table
from gpupool.cli.queue.connections import with_database
from gpupool.environment.spec.field_types import duration_seconds
from gpupool.findings import GpupoolError, UsageError
from gpupool.findings.address_secrets import DATABASE

if TYPE_CHECKING:
    from gpupool.queue.records import ApiKey

SCOPES = ("jobs:read", "jobs:write", "usage:read", "users:any", "metrics:read", "admin")

app = typer.Typer(
    help="API keys of the job queue: create, list, revoke.", no_args_is_help=True, rich_markup_mode=None
)
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help=f"PostgreSQL of the queue; with a password through {DATABASE}. "
        "Default: that of `gpupool serve` on this machine.",
        show_default=False,
    ),
]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the key; jobs show it as their user.")],
    tenant: Annotated[
        list[str] | None,
        typer.Option(
            "--tenant", help="Tenant that the key may act for; may be repeated; '*' for all tenants."
        ),
    ] = None,
    scope: Annotated[
        list[str] | None, typer.Option("--scope", help=f"One of {', '.join(SCOPES)}; may be repeated.")
    ] = None,
    expires: Annotated[str, typer.Option("--expires", help="Validity, such as 90d, or never.")] = "90d",
    database: DatabaseOption = None,
    format: FormatOption = "text",
) -> None:
    """Create a key and print its secret, once.

    Example: gpupool keys create ci --tenant vision --scope jobs:read --scope jobs:write
    """
    from gpupool.queue.store import keys

    scopes = tuple(dict.fromkeys(scope or ("jobs:read", "jobs:write", "usage:read")))
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown:
        raise UsageError(f"unknown scope {', '.join(unknown)}; scopes: {', '.join(SCOPES)}")
    tenants = tuple(dict.fromkeys(tenant or ()))
    if not tenants:
        raise UsageError("name the tenants that the key acts for: --tenant NAME, or '*' for all")
    if not 1 <= len(name) <= 200 or not name.isprintable():
        raise UsageError("the key's name is empty, is too long or contains control characters")
    ends = _end(expires)
    key, secret = with_database(database, lambda db: keys.create(db, name, tenants, scopes, ends))
    if format == "json":
        print_json({**_key_json(key), "secret": secret})
        return
    print(secret)
    typer.echo(
        f"key {key.id} for {', '.join(tenants)}, "
        f"{'valid until ' + _day(ends) if ends else 'without expiry'}. The secret is not shown again.",
        err=True,
    )


@app.command(name="list")
def list_(database: DatabaseOption = None, format: FormatOption = "text") -> None:
    """List the keys, without their secrets.

    Example: gpupool keys list
    """
    from gpupool.queue.store import keys

    api_keys = with_database(database, keys.listed)
    if format == "json":
        print_json({"keys": [_key_json(key) for key in api_keys]})
        return
    print_table(
        ("id", "name", "tenants", "scopes", "expires", "last used", "state"),
        [
            (
                key.id,
                key.name,
                ",".join(key.tenants),
                ",".join(key.scopes),
                _day(key.expires_at),
                _day(key.last_used_at),
                _state(key),
            )
            for key in api_keys
        ],
    )


@app.command()
def revoke(
    id: Annotated[str, typer.Argument(help="The key's id, as `gpupool keys list` shows it.")],
    database: DatabaseOption = None,
) -> None:
    """Revoke a key. The queue refuses it within five seconds.

    Example: gpupool keys revoke 4fJ2kQ
    """
    from gpupool.queue.store import keys

    if not with_database(database, lambda db: keys.revoke(db, id)):
        raise GpupoolError(f"no key {id}, or it is already revoked; list the keys with: gpupool keys list")
    print(f"key {id} is revoked")


def _end(text: str) -> datetime | None:
    if text == "never":
        return None
    seconds = duration_seconds(text) if re.fullmatch(r"([0-9]{1,9}[smhd])+", text) else 0
    if not seconds or seconds > 10 * 366 * 86_400:
        raise UsageError(f"--expires {text}: give a duration of at most ten years such as 90d, or never")
    return datetime.now(UTC) + timedelta(seconds=seconds)


def _state(key: ApiKey) -> str:
    if key.revoked_at:
        return "revoked"
    return "expired" if key.expires_at and key.expires_at <= datetime.now(UTC) else "valid"


def _day(at: datetime | None) -> str:
    return at.date().isoformat() if at else "-"


def _key_json(key: ApiKey) -> dict[str, Any]:
    moments = ("created_at", "expires_at", "revoked_at", "last_used_at")
    return {
        "id": key.id,
        "name": key.name,
        "tenants": list(key.tenants),
        "scopes": list(key.scopes),
        **{name: getattr(key, name) and getattr(key, name).isoformat() for name in moments},
        "state": _state(key),
    }
