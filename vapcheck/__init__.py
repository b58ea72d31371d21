"""Evaluates ValidatingAdmissionPolicies offline, as the API server does.

The library is general: it knows manifests, policies and CEL, and nothing of GPUs, pools or environments.
What is named here is its surface; README.md beside this file has an example. Names are imported at first
use, since compiling CEL needs libraries that reading manifests does not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vapcheck.judging.check import check
    from vapcheck.manifests.documents import Document, from_bodies, read_files, read_text
    from vapcheck.manifests.problem import Problem
    from vapcheck.outcome import ObjectRef, PolicyFinding, Report
    from vapcheck.server.kinds import Kinds

__all__ = [
    "Document",
    "Kinds",
    "ObjectRef",
    "PolicyFinding",
    "Problem",
    "Report",
    "check",
    "from_bodies",
    "read_files",
    "read_text",
]

_MODULES = {
    "vapcheck.judging.check": ("check",),
    "vapcheck.manifests.documents": ("Document", "from_bodies", "read_files", "read_text"),
    "vapcheck.manifests.problem": ("Problem",),
    "vapcheck.outcome": ("ObjectRef", "PolicyFinding", "Report"),
    "vapcheck.server.kinds": ("Kinds",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, imported at its first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'vapcheck' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
