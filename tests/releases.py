"""The tool behind `make release`, which lies outside of every package, as a module."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def load(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", root / ".ci" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
