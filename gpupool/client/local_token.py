"""The token of a project's own queue (`gpupool serve ENV --dev`): a file that only its owner can read.

Clients do not send the token itself but a seal: of the port that they call, and valid for a minute. A program
that listens there in the queue's place gets nothing that opens the queue. It needs the standard library
alone, and must not send anything.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

NAME = "token"
"""Of the file, in the folder of the queue's data."""
FOLDER = Path(".gpupool") / "queue"
"""Of the queue's data in a project, unless GPUPOOL_QUEUE_DIR names another."""
PREFIX = "gpl_"
CALL_S, LINK_S = 60, 900
"""How long a seal is valid, in seconds: of one request, and of a link that signs a browser in."""
Use = Literal["call", "link"]
_TOKEN = re.compile(r"gpl_[A-Za-z0-9_-]{43}")
_SEAL = re.compile(r"gpl_([0-9]{1,12})_([0-9a-f]{32})_([0-9a-f]{64})")


def ensure(folder: Path) -> Path:
    """The file with the token of the queue whose data is in `folder`; a new token where there is none, or
    others could have read or written it. Raises OSError."""
    path = folder / NAME
    if read(path) is None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, fresh = tempfile.mkstemp(dir=folder)  # 0600
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(f"{PREFIX}{secrets.token_urlsafe(32)}\n")
        os.replace(fresh, path)
    return path


def read(path: Path) -> str | None:
    """The token in a file; None where there is none that is this account's alone."""
    if sys.platform == "win32":  # `serve --dev` does not run there
        return None
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="ascii") as file:
            there = os.fstat(file.fileno())
            private = there.st_uid == os.geteuid() and not there.st_mode & 0o77
            text = file.read(100).strip() if private and stat.S_ISREG(there.st_mode) else ""
    except (OSError, ValueError):
        return None
    return text if _TOKEN.fullmatch(text) else None


def find() -> str | None:
    """The token of the project that one stands in, or of the checkout that this file is in; None: there is
    none."""
    folder = os.environ.get("GPUPOOL_QUEUE_DIR")
    here = Path.cwd()
    projects = (here, *here.parents, Path(__file__).parents[2])
    folders = [Path(folder).expanduser()] if folder else [project / FOLDER for project in projects]
    return next((token for folder in folders if (token := read(folder / NAME))), None)


def seal(token: str, use: Use, port: int, lasts_s: int, now: float | None = None) -> str:
    """What opens the queue at this port until `lasts_s` are over."""
    ends, nonce = int(time.time() if now is None else now) + lasts_s, secrets.token_hex(16)
    return f"{PREFIX}{ends}_{nonce}_{_mac(token, use, port, str(ends), nonce)}"


def opens(token: str, use: Use, port: int, presented: str, now: float) -> bool:
    """Whether what a client presents is a seal by `token` that is still valid; for calls the token itself
    is as good."""
    if use == "call" and hmac.compare_digest(presented.encode(), token.encode()):
        return True
    form = _SEAL.fullmatch(presented)
    return (
        form is not None
        and now < int(form[1])
        and hmac.compare_digest(_mac(token, use, port, form[1], form[2]), form[3])
    )


def _mac(token: str, use: Use, port: int, ends: str, nonce: str) -> str:
    return hmac.new(token.encode(), f"{use} {port} {ends} {nonce}".encode(), "sha256").hexdigest()
