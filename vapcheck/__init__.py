"""Evaluates ValidatingAdmissionPolicies offline, as the API server does.

The library is general: it handles manifests, policies and CEL, and knows nothing about GPUs, pools or
environments. What is named here is its surface; README.md beside this file has an example. Names are imported
at first use, since compiling CEL needs libraries that reading manifests does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vapcheck.first_use import first_use

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

__getattr__ = first_use(
    __name__,
    {
        "judging.check": "check",
        "manifests.documents": "Document from_bodies read_files read_text",
        "manifests.problem": "Problem",
        "outcome": "ObjectRef PolicyFinding Report",
        "server.kinds": "Kinds",
    },
)
