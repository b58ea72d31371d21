"""Names in a folder of fixtures: which files and annotations are read, and what is wrong with all others.

What nothing reads proves nothing, however much it looks like a fixture. It must not read files or judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from policies.engine.documents import SUFFIXES, Document
from policies.engine.plausibility import meant
from policies.engine.policy import ANNOTATION
from policies.engine.policy_set import is_policy

ANNOTATIONS = ("operation", "subresource", "user", "groups", "uid", "extra", "expect", "old")
"""Those of a fixture, after the prefix."""
_OTHERS = ("external",)
"""What the rules over a whole bundle read on any object."""
_KINDS = ("good", "bad", "context")
"""What the files of a policy's fixtures begin with."""


def files_of(folder: Path) -> list[Path]:
    """Everything in `folder` but what is hidden, which is other tools' (.DS_Store, .gitkeep)."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def file_kind(path: Path) -> str | None:
    """`good`, `bad` or `context`; None for a file that is not read."""
    kind = next((kind for kind in _KINDS if path.name.startswith(kind)), None)
    return kind if path.suffix in SUFFIXES else None


def misnamed(path: Path) -> str:
    """What is wrong with the name of a file among a policy's fixtures."""
    word = re.split(r"[^a-z]", path.stem.lower())[0]
    near = meant(word, _KINDS)
    return f"is not read: call it good*.yaml, bad*.yaml or context.yaml{near and f'; {near}'}"


def misplaced(path: Path, policies: Iterable[str]) -> str:
    """What is wrong with something in the folder of all fixtures that is not the folder of a policy."""
    if not path.is_dir():
        return "belongs to no policy; move it into a folder that has a policy's name"
    near = meant(path.name, policies)
    return f"no policy has this name; {near or 'rename the folder or remove it'}"


def mapping_in(body: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The mapping at these keys, empty where there is none; what else is there is told when it is judged."""
    for key in keys:
        value = body.get(key)
        body = value if isinstance(value, dict) else {}
    return body


def unknown_annotation(document: Document) -> str:
    """What is wrong with an annotation that looks like one of a fixture and would do nothing; or nothing."""
    if is_policy(document):
        return ""  # has such annotations of its own
    for key in mapping_in(document.body, "metadata", "annotations"):
        own = str(key).removeprefix(ANNOTATION)
        if str(key).startswith(ANNOTATION) and own not in (*ANNOTATIONS, *_OTHERS):
            near = meant(own, ANNOTATIONS) or f"known are {', '.join(ANNOTATIONS)}"
            return f"unknown annotation {key}; {near}"
    return ""
