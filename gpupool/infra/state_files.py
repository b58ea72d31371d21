"""Files of Pulumi's file backend: where they are, and what is left over beside a stack's state.

Must not change the state itself: what to do about a damaged one is for people to decide.

How the engine writes it (pulumi 3.259, pkg/backend/diy/state.go): it copies `STACK.json` to `STACK.json.bak`,
writes the new state to a temporary file, and renames that.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from gpupool.environment.project import root as project_root
from gpupool.findings import GpupoolError

_SCHEME = "file://"
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""What gzip and zstandard files begin with; the engine reads such states whatever their name."""
_UNREADABLE = "failed to load checkpoint:"
"""How the engine begins when it can't read a state."""
_FULL = ("no space left on device", "disk quota exceeded")
_READ_ONLY = ("read-only file system",)
"""How Linux' and macOS' errors read in Go."""


class DamagedStateError(GpupoolError):
    """The stack's state can't be read; the text names the file and the command that recovers it."""


def folder(backend_url: str) -> Path | None:
    """The folder `.pulumi` of a backend that is files, None for others (s3:// and the like).

    `file://~` is the user's home, and a relative path begins where the engine runs, as Pulumi reads them
    (3.259, pkg/backend/diy/backend.go, massageBlobPath).
    """
    if not backend_url.startswith(_SCHEME):
        return None
    path = Path(unquote(backend_url.removeprefix(_SCHEME).partition("?")[0]))
    root = Path.home() / Path(*path.parts[1:]) if path.parts[:1] == ("~",) else project_root() / path
    return root / ".pulumi"


def damaged(backend_url: str, project: str, stack: str, engine: str) -> DamagedStateError | None:
    """The error for a state that the engine could not read, from what it said; None where that is not it."""
    root = folder(backend_url)
    _, unreadable, reason = engine.partition(_UNREADABLE)
    if root is None or not unreadable or "unsupported" in reason:
        return None
    path = root / "stacks" / project / f"{stack}.json"
    copy = path.with_name(f"{path.name}.bak")
    broken = _damage(copy)
    state, spare = shlex.quote(str(path)), shlex.quote(str(copy))
    if broken is None:
        advice = (
            f"the copy from before its last change is valid: {copy}. Restore it, and record later "
            f"changes: cp {spare} {state} && gpupool refresh {stack}"
        )
    else:
        advice = (
            f"there is no valid copy ({copy}: {broken}). Restore a backup, or move it away and "
            f"let `up` find its objects by label: mv {state} {state}.damaged && gpupool up {stack}"
        )
    return DamagedStateError(
        f"{path}: the state of {stack} is damaged ({reason.strip()}); nothing was changed, and {advice}"
    )


def _damage(path: Path) -> str | None:
    """What is wrong with the copy of a state; None for a sound one."""
    try:
        content = path.read_bytes()
    except OSError as error:
        return str(error.strerror)
    if content.startswith(_COMPRESSED):
        return None
    try:
        return _flaw(json.loads(content)) if content.strip(b"\0 \n") else "it is empty"
    except json.JSONDecodeError as error:
        return f"invalid JSON at line {error.lineno}, column {error.colno}, of {len(content)} bytes"
    except (ValueError, RecursionError):
        return "invalid JSON"


def _flaw(state: Any) -> str | None:
    """Where a state is not of the form that the engine writes."""
    checkpoint = state.get("checkpoint") if isinstance(state, dict) else None
    if not isinstance(checkpoint, dict):
        return "`checkpoint` must be an object"
    latest = checkpoint.get("latest") or {}
    if not isinstance(latest, dict):
        return "`checkpoint.latest` must be an object"
    for key in ("resources", "pending_operations"):
        rows = latest.get(key) or []
        if not isinstance(rows, list):
            return f"`checkpoint.latest.{key}` must be a list"
        for number, row in enumerate(rows):
            resource = row.get("resource") if key == "pending_operations" and isinstance(row, dict) else row
            if not isinstance(resource, dict) or not isinstance(resource.get("urn"), str):
                return f"`checkpoint.latest.{key}[{number}]` must be an object with a URN"
    return None


def disk_problem(messages: Iterable[str], backend_url: str) -> str | None:
    """The message when the engine could not write its state; None where its output does not say so."""
    text = "\n".join(messages).lower()
    full, read_only = (any(words in text for words in cause) for cause in (_FULL, _READ_ONLY))
    if not (full or read_only):
        return None
    where = folder(backend_url) or backend_url
    if full:
        return (
            f"{where}: the disk is full, so the state could not be written. Free some space there and run "
            "this command again: it finds objects that were created but not recorded"
        )
    return f"{where}: the disk is read-only, so the state can't be written; make it writable first"


def clear_left(backend_url: str, project: str, stack: str) -> int:
    """Remove what engines that were killed left beside the stack's state; how many files.

    The caller has made sure that there is no lock. Removed are unreadable .attrs files: they hold a
    content type and a checksum that are not needed, and one that was being written when its engine was killed
    keeps the sound state beside it from being loaded (with metadata=skip there are none). And copies of the
    state, in history and backups too, that never got their name: an engine on a full disk leaves ten of them,
    which keep it full. One that is just being written is missed by its engine, which writes it again.
    """
    root = folder(backend_url)
    if root is None:
        return 0
    stacks = root / "stacks" / project
    left = [path for path in stacks.glob(f"{stack}.json*.attrs") if not _is_json(path)]
    left += stacks.glob(f"{stack}.json*.tmp")
    for records in ("history", "backups"):
        left += (root / records / project / stack).glob("*.tmp")
    for path in left:
        path.unlink(missing_ok=True)
    return len(left)


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return True
