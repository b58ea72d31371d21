"""What keeps an engine from delivering, as its own objects in the cluster show it. For all engines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class HaltCause(StrEnum):
    """Why a commit is not delivered, or an edit by hand not undone."""

    suspended = "suspended"
    """Somebody has suspended it."""
    retrying = "retrying"
    """The last attempt failed, and the engine tries the same commit again: no newer one meanwhile."""
    failing = "failing"
    """The last attempt failed."""


@dataclass(frozen=True, slots=True)
class Halt:
    """One object of the engine's that does not deliver."""

    cause: HaltCause
    message: str = ""
    """What the engine says."""
    command: str = ""
    """What lets it go on; empty where it is enough to ask it to deliver again."""


def merge_patch(live: Mapping[str, Any], change: Mapping[str, Any]) -> str:
    """The command that merges a change into an engine's object."""
    metadata = live["metadata"]
    named = f"{live['kind'].lower()} {metadata['name']}"
    return f"kubectl -n {metadata['namespace']} patch {named} --type=merge -p '{json.dumps(change)}'"
