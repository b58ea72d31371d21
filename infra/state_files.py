"""Files of Pulumi's file backend: where they are, and what is left over beside a stack's state.

Must not change the state itself: what is damaged there is for people to decide.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.parse import unquote

from infra.local.binaries import PROJECT_ROOT

_SCHEME = "file://"
_SETTLED_SECONDS = 60.0
"""A temporary file of the state that is older is left over: an engine writes megabytes in less."""


def folder(backend_url: str) -> Path | None:
    """The folder `.pulumi` of a backend that is files, None for others (s3:// and the like).

    `file://~` is the user's home, and a relative path begins where the engine runs, as Pulumi reads them
    (3.259, pkg/backend/diy/backend.go, massageBlobPath).
    """
    if not backend_url.startswith(_SCHEME):
        return None
    path = Path(unquote(backend_url.removeprefix(_SCHEME).partition("?")[0]))
    root = Path.home() / Path(*path.parts[1:]) if path.parts[:1] == ("~",) else PROJECT_ROOT / path
    return root / ".pulumi"


def clear_left(backend_url: str, project: str, stack: str) -> int:
    """Remove what engines that were killed left beside the stack's state; how many files.

    That is unreadable .attrs files: they hold a content type and a checksum that nobody needs, and one that
    was being written when its engine was killed keeps the sound state beside it from being loaded (with
    metadata=skip there are none). And copies of the state that never got their name, which only fill the
    disk.
    """
    root = folder(backend_url)
    if root is None:
        return 0
    stacks = root / "stacks" / project
    left = [path for path in stacks.glob(f"{stack}.json*.attrs") if not _is_json(path)]
    left += [path for path in stacks.glob(f"{stack}.json*.tmp") if _age(path) > _SETTLED_SECONDS]
    for path in left:
        path.unlink(missing_ok=True)
    return len(left)


def _age(path: Path) -> float:
    """Seconds since the file was last changed; 0 where it has gone meanwhile."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return True
