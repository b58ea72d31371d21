"""What in an address is a secret, and that no option, field or message has one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpupool.findings.address_secrets import secret_in, without_passwords, without_user
from gpupool.queue.store.conninfo import Unreadable, secret_in_conninfo
from tests.command import gpupool
from tests.environment_files import environment_data, write_environment

SECRET = "hunter2"
WITH_SECRET = (
    f"nats://user:{SECRET}@nats:4222",
    f"nats://{SECRET}@nats:4222",
    f"nats://plain:4222,nats://u:{SECRET}@other:4222",
    f"nats://plain:4222, {SECRET}@other:4222,u:{SECRET}@third",
    f"tls://u%3A{SECRET}@nats",
    f"NATS://u:{SECRET}@nats",
    f"wss://nats/path?auth_token={SECRET}",
    f"nats://nats?pass={SECRET}",
    f"nats://nats#access_token={SECRET}",
    f"nats://u:p@ss/{SECRET}@nats",
    f"https://:{SECRET}@git.example/platform.git",
    f"https://x?API_KEY={SECRET}",
    f"https://x?pass%77ord={SECRET}",
    f"ssh://git:{SECRET}@git.example/platform.git",
)
WITHOUT = (
    "nats://nats.messaging:4222",
    "nats://a:4222,nats://b:4222",
    "ssh://git@git.example/platform.git",
    "git@git.example:platform.git",
    "https://git.example/a@b/platform.git?token_type=none",
    "oci://registry.example/charts",
    "http://[fd00::1]:9090/path",
)
POSTGRES = (
    f"postgresql://u:{SECRET}@h/d",
    f"postgres://u@h/d?password={SECRET}",
    f"postgresql://u@h/d?pass%77ord={SECRET}",
    f"postgresql://u@h/d?sslpassword={SECRET}",
    f"postgresql+psycopg://u:{SECRET}@h/d",
    f"host=h user=u password={SECRET}",
    f"host = h password = '{SECRET} with spaces'",
    f"dbname=d scram_client_key={SECRET}",
    f"postgresql://u@a:1,b:2/d?oauth_client_secret={SECRET}",
)
UNREADABLE = (f"postgresql://u@h/d?PASSWORD={SECRET}", f"u:{SECRET}@h", f"host=h password='{SECRET}", SECRET)


@pytest.mark.parametrize("address", WITH_SECRET)
def test_a_secret_is_noticed(address: str) -> None:
    assert secret_in(address)


@pytest.mark.parametrize(
    "address",
    [
        f"http://user:{SECRET}@queue:8021/x?y=z",
        f"https://{SECRET}@github.com/x",
        f"nats://user:{SECRET}@nats:4222",
        f"redis://user%3A{SECRET}@redis",
        f"postgresql://u:p@{SECRET}@db/x",
    ],
)
def test_no_message_repeats_a_password_before_a_host(address: str) -> None:
    assert SECRET not in without_passwords(f"the argument '{address}' is no good; write another")


@pytest.mark.parametrize(
    "text",
    ["pytorch:24.01@sha256:0a", "oci://r:5000/x@sha256:0a", "http://h:80/p?x=a@b", "git@github.com:a/b"],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert without_passwords(text) == text


def test_what_is_shown_has_no_user() -> None:
    shown = without_user(f"use https://u:{SECRET}@h/a, nats://{SECRET}@h, u:{SECRET}@h or al2023@latest")
    assert shown == "use https://...@h/a, nats://...@h, ...@h or al2023@latest"


@pytest.mark.parametrize("address", WITHOUT)
def test_other_addresses_have_none(address: str) -> None:
    assert secret_in(address) is None


@pytest.mark.parametrize("address", POSTGRES)
def test_libpqs_own_forms(address: str) -> None:
    assert secret_in_conninfo(address)


@pytest.mark.parametrize(
    "address", ["postgresql://u@h/d?passfile=/f&sslmode=verify-full", "host=/run user=u", ""]
)
def test_what_libpq_reads_without_a_secret(address: str) -> None:
    assert secret_in_conninfo(address) is None


@pytest.mark.parametrize("address", UNREADABLE)
def test_what_libpq_can_not_read_is_not_repeated(address: str) -> None:
    with pytest.raises(Unreadable) as raised:
        secret_in_conninfo(address)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "command",
    [("serve", "local", "--background", "--database"), ("keys", "list", "--database")],
    ids=["serve", "keys"],
)
@pytest.mark.parametrize("address", [*POSTGRES, *UNREADABLE])
def test_no_option_takes_a_password_of_postgresql(
    command: tuple[str, ...], address: str, tmp_path: Path
) -> None:
    done = gpupool(*command, address, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert SECRET not in done.stderr
    assert "GPUPOOL_DATABASE_URL" in done.stderr or "write postgresql://USER@HOST/DATABASE" in done.stderr


@pytest.mark.parametrize(
    "address", [one for one in WITH_SECRET if one.lower().startswith(("nats", "tls", "ws"))]
)
def test_no_option_takes_credentials_of_nats(address: str, tmp_path: Path) -> None:
    done = gpupool("serve", "local", "--background", "--nats", address, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert SECRET not in done.stderr
    assert "set GPUPOOL_NATS_URL" in done.stderr


def test_the_migration_takes_none_as_its_argument() -> None:
    command = [sys.executable, "-m", "gpupool.queue.store.migrate", POSTGRES[0]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr
        == "migrate: the argument contains a secret (password); set GPUPOOL_DATABASE_URL instead\n"
    )


FIELDS = (
    ("queue", {"nats": {"url": f"nats://u:{SECRET}@nats"}}),
    ("queue", {"nats": {"url": f"u:{SECRET}@nats"}}),
    ("queue", {"auth": {"issuer": f"https://u:{SECRET}@id.example", "audience": "a"}}),
    ("queue", {"idle": {"prometheus": f"http://u:{SECRET}@prometheus:9090"}}),
    ("queue", {"targets": [f"https://u:{SECRET}@models.example"]}),
    ("queue", {"alerts": {"smtp": {"host": f"u:{SECRET}@mail", "from": "a@b", "to": ["a@b"]}}}),
    ("queue", {"chart": {"repository": f"oci://u:{SECRET}@registry/charts", "image": "a:1"}}),
    ("delivery", {"engine": "flux", "path": "p", "repo": f"https://u:{SECRET}@git.example/a.git"}),
    ("assertion", {"image": "a:1", "pushgateway": f"http://u:{SECRET}@gateway:9091"}),
)


@pytest.mark.parametrize(
    ("section", "fields"), FIELDS, ids=[f"{one}.{next(iter(two))}" for one, two in FIELDS]
)
def test_no_field_takes_one_and_no_message_repeats_it(section: str, fields: dict, tmp_path: Path) -> None:
    write_environment(tmp_path, environment_data("static", **{section: fields}))
    for more in ([], ["--format", "json"]):
        done = gpupool("validate", "trial.yaml", *more, folder=tmp_path)
        assert done.returncode == 1, done.stdout
        assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "address", [f"postgresql://u:{SECRET}@[h/db", f"mysql://u:{SECRET}@h/db", *UNREADABLE]
)
def test_an_address_of_the_environment_that_is_wrong_is_not_repeated(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPOOL_DATABASE_URL", address)
    done = gpupool("keys", "list", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("GPUPOOL_DATABASE_URL: not an address of PostgreSQL")
    assert SECRET not in done.stderr
