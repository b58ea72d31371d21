"""`gpupool keys`: what it prints, and that the keys work."""

from __future__ import annotations

import asyncio
import json

import pytest
from typer.testing import CliRunner, Result

from gpupool.cli.app import app
from gpupool.findings import UsageError
from gpupool.queue.store import keys
from gpupool.queue.store.database import Database


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["keys", *arguments])


def found(url: str, secret: str) -> object:
    async def find() -> object:
        async with Database.open(url) as db:
            return await keys.find(db, secret)

    return asyncio.run(find())


def test_a_key_is_created_listed_and_revoked(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPOOL_DATABASE_URL", database_url)
    made = run("create", "ci", "--tenant", "vision", "--scope", "jobs:read", "--expires", "7d")
    assert made.exit_code == 0, made.output
    secret = made.stdout.strip()
    assert secret.startswith("gpk_")
    assert "is not shown again" in made.stderr
    assert found(database_url, secret)
    listed = json.loads(run("list", "--format", "json").stdout)["keys"]
    assert [(key["name"], key["tenants"], key["scopes"], key["state"]) for key in listed] == [
        ("ci", ["vision"], ["jobs:read"], "valid")
    ]
    assert secret not in run("list").stdout
    assert run("revoke", listed[0]["id"]).exit_code == 0
    assert found(database_url, secret) is None
    assert "revoked" in run("list").stdout
    assert "no key " in str(run("revoke", listed[0]["id"]).exception)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("create", "ci"), "--tenant"),
        (("create", "ci", "--tenant", "vision", "--scope", "all"), "unknown scope all"),
        (("create", "ci", "--tenant", "vision", "--expires", "soon"), "--expires soon"),
        (("create", "ci", "--tenant", "vision", "--expires", "90d or so"), "--expires 90d or so"),
        (("create", "a\nb", "--tenant", "vision"), "name"),
    ],
)
def test_wrong_use_makes_no_key(arguments: tuple[str, ...], said: str, database_url: str) -> None:
    ended = run(*arguments, "--database", database_url)
    assert isinstance(ended.exception, UsageError)
    assert said in str(ended.exception)
    assert json.loads(run("list", "--database", database_url, "--format", "json").stdout) == {"keys": []}


def test_without_a_queue_it_says_what_to_start(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPOOL_QUEUE_DIR", str(tmp_path))
    monkeypatch.delenv("GPUPOOL_DATABASE_URL", raising=False)
    assert "gpupool serve ENV" in str(run("list").exception)
