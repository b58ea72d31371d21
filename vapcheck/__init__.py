"""Evaluates ValidatingAdmissionPolicies offline, as the API server does.

The library is general: it handles manifests, policies and CEL, and knows nothing about GPUs, pools or
environments. What is named here is its surface; README.md beside this file has an example. Names are imported
at first use, since compiling CEL needs libraries that reading manifests does not.
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

_HOMES = {
    "judging.check": "check",
    "manifests.documents": "Document from_bodies read_files read_text",
    "manifests.problem": "Problem",
    "outcome": "ObjectRef PolicyFinding Report",
    "server.kinds": "Kinds",
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
