"""Whose the embedded database is where root runs it: no other account's, also after an earlier release."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from gpupool.queue.store import embedded, embedded_account
from gpupool.queue.store.embedded import Embedded
from gpupool.queue.store.embedded_account import ServerAccount
from gpupool.queue.store.errors import StoreError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only for root is there another account")
GUEST = pwd.getpwnam("nobody")
ATTEMPT = """
import os, sys
import psycopg
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
try:
    with psycopg.connect(sys.argv[1], connect_timeout=5) as connection:
        print(connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone())
except psycopg.OperationalError as error:
    print("refused")
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="gpupool-embedded-"))
    yield path
    pid = Embedded(path / "queue").server_pid()
    if pid is not None:
        psutil.Process(pid).kill()
    shutil.rmtree(path, ignore_errors=True)


def superuser_for(url: str, uid: int) -> str:
    command = [sys.executable, "-c", ATTEMPT, url, str(uid)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def owners(folder: Path) -> set[int]:
    return {path.lstat().st_uid for path in (folder, *folder.rglob("*"))}


def test_no_other_account_is_its_superuser(folder: Path) -> None:
    folder.chmod(0o755)
    server = Embedded(folder / "queue")
    url = server.start()
    for uid in (GUEST.pw_uid, 61_234):
        assert superuser_for(url, uid) == "refused"
    assert superuser_for(url, 0) == "(True,)"
    assert owners(server.folder) == {0}
    namespace = os.readlink(f"/proc/{server.server_pid()}/ns/user")
    assert namespace != os.readlink("/proc/self/ns/user"), "it has root's privileges"
    assert not any(path.lstat().st_mode & 0o077 for path in server.folder.iterdir())
    server.stop()


def test_data_of_another_account_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its configuration could name programs, and they would run as root. Earlier releases left such data."""
    folder.chmod(0o711)
    with monkeypatch.context() as patch:
        patch.setattr(embedded, "needed", lambda _: ServerAccount(GUEST.pw_uid, GUEST.pw_gid))
        before = Embedded(folder / "queue")
        before.start()
        assert owners(before.data) == {GUEST.pw_uid}
        before.stop()
    ran = folder / "ran"
    with (before.data / "postgresql.conf").open("a") as settings:
        settings.write(f"archive_mode = on\narchive_command = 'touch {ran}'\n")
    with pytest.raises(
        StoreError, match=f"belongs to account {GUEST.pw_uid}, whose programs may have changed it"
    ):
        Embedded(folder / "queue").start()
    assert owners(before.data) == {GUEST.pw_uid}
    assert not ran.exists()


def test_without_namespaces_it_is_an_account_that_runs_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the other way round afterwards: the data are root's again."""
    folder.chmod(0o755)
    server = Embedded(folder / "queue")
    with monkeypatch.context() as patch:
        patch.setattr(embedded_account, "_namespaces", lambda *_: False)
        url = server.start()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
        (owner,) = owners(server.data)
        assert owner not in (0, GUEST.pw_uid)
        assert psutil.Process(server.server_pid()).uids().real == owner
        for uid in (GUEST.pw_uid, 61_234):
            assert superuser_for(url, uid) == "refused"
        server.stop()
        again = Embedded(folder / "queue")
        again.start()
        assert owners(again.data) == {owner}
        again.stop()
    last = Embedded(folder / "queue")
    with psycopg.connect(last.start()) as connection:
        assert connection.execute("SELECT number FROM kept").fetchone() == (7,)
    assert owners(last.data) == {0}
    last.stop()
