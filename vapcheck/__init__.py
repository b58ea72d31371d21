"""Evaluates ValidatingAdmissionPolicies offline, as the API server does.

The library is general: it handles manifests, policies and CEL, and knows nothing about GPUs, pools or
environments. `__all__` is its public surface, together with `vapcheck.reading` (bounded reads of files),
`vapcheck.fixtures` (tests of policies) and `vapcheck.cel`; README.md beside this file has an example. Names
are imported at first use, since compiling CEL needs libraries that reading manifests does not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vapcheck.judging.check import check
    from vapcheck.judging.judge import Judge
    from vapcheck.judging.redaction import without_secrets
    from vapcheck.judging.request import identity, read_extra
    from vapcheck.manifests.documents import (
        MAX_BYTES,
        Document,
        from_bodies,
        is_not_kubernetes,
        is_taken,
        read_files,
        read_text,
    )
    from vapcheck.manifests.problem import Problem
    from vapcheck.manifests.yaml_nodes import Pair, YamlDocument, YamlNode, read_nodes
    from vapcheck.outcome import Level, ObjectRef, PolicyFinding, Report
    from vapcheck.policy.compiled_policy import Compiler
    from vapcheck.policy.model import ValidationAction
    from vapcheck.policy.policy_set import UNKNOWN_MINOR, PolicySet, other_minor, read_policies
    from vapcheck.policy.selectors import read_selector
    from vapcheck.server.admission_view import UID, as_admitted
    from vapcheck.server.canonical_text import amount, quantity
    from vapcheck.server.kinds import Kinds, namespace_of, resource_of
    from vapcheck.server.minors import MINORS, NEWEST
    from vapcheck.server.name_forms import is_label_key, is_label_value
    from vapcheck.server.pod_templates import WORKLOADS, pod_templates
    from vapcheck.server.schema import DROPPED

__all__ = [
    "DROPPED",
    "MAX_BYTES",
    "MINORS",
    "NEWEST",
    "UID",
    "UNKNOWN_MINOR",
    "WORKLOADS",
    "Compiler",
    "Document",
    "Judge",
    "Kinds",
    "Level",
    "ObjectRef",
    "Pair",
    "PolicyFinding",
    "PolicySet",
    "Problem",
    "Report",
    "ValidationAction",
    "YamlDocument",
    "YamlNode",
    "amount",
    "as_admitted",
    "check",
    "from_bodies",
    "identity",
    "is_label_key",
    "is_label_value",
    "is_not_kubernetes",
    "is_taken",
    "namespace_of",
    "other_minor",
    "pod_templates",
    "quantity",
    "read_extra",
    "read_files",
    "read_nodes",
    "read_policies",
    "read_selector",
    "read_text",
    "resource_of",
    "without_secrets",
]

_HOMES = {
    "judging.check": "check",
    "judging.judge": "Judge",
    "judging.redaction": "without_secrets",
    "judging.request": "identity read_extra",
    "manifests.documents": "MAX_BYTES Document from_bodies is_not_kubernetes is_taken read_files read_text",
    "manifests.problem": "Problem",
    "manifests.yaml_nodes": "Pair YamlDocument YamlNode read_nodes",
    "outcome": "Level ObjectRef PolicyFinding Report",
    "policy.compiled_policy": "Compiler",
    "policy.model": "ValidationAction",
    "policy.policy_set": "PolicySet UNKNOWN_MINOR other_minor read_policies",
    "policy.selectors": "read_selector",
    "server.admission_view": "UID as_admitted",
    "server.canonical_text": "amount quantity",
    "server.kinds": "Kinds namespace_of resource_of",
    "server.minors": "MINORS NEWEST",
    "server.name_forms": "is_label_key is_label_value",
    "server.pod_templates": "WORKLOADS pod_templates",
    "server.schema": "DROPPED",
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
