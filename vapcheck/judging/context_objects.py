"""The objects that others are judged by: namespaces, roles, and what decides how pods are admitted.

An object that the server could not read is left out and listed in `unreadable`. This module judges nothing.
For parameters, see `parameters`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from vapcheck.judging.matching import NAME_LABEL
from vapcheck.judging.rbac import GROUP, Rbac
from vapcheck.manifests.documents import Document
from vapcheck.outcome import Level, PolicyFinding
from vapcheck.policy.policy_set import engine_finding
from vapcheck.server.admission_view import Doubt, Surroundings, as_admitted
from vapcheck.server.kinds import Kinds

Body = dict[str, Any]
_SURROUNDING = {"PriorityClass", "ServiceAccount", "LimitRange"}
"""Kinds of objects that change how pods are admitted."""


class ContextObjects:
    """What is looked up in the objects of a bundle."""

    def __init__(self, documents: Iterable[Document], kinds: Kinds) -> None:
        self.unreadable: list[tuple[Document, list[PolicyFinding]]] = []
        """What was left out, and why."""
        self.namespaces: dict[str, Body] = {}
        """As they are admitted, by name."""
        roles, surrounding = [], []
        for document in documents:
            body = document.body
            kind, api_version = body.get("kind"), str(body.get("apiVersion"))
            is_role = api_version.partition("/")[0] == GROUP and kinds.resource(api_version, str(kind))
            if not (is_role or kind in _SURROUNDING or (kind == "Namespace" and api_version == "v1")):
                continue
            doubts: list[Doubt] = []
            admitted = as_admitted(body, kinds, operation="CREATE", doubts=doubts)
            wrong = [doubtful(doubt, document) for doubt in doubts if doubt.fatal]
            if wrong:
                self.unreadable.append((document, wrong))
            elif is_role:
                roles.append(body)
            elif kind in _SURROUNDING:
                surrounding.append(admitted)
            elif admitted["metadata"].get("name"):
                self.namespaces[admitted["metadata"]["name"]] = admitted
        self.rbac = Rbac(roles)
        self.surroundings = Surroundings.of(surrounding)

    def namespace(self, name: str) -> Body:
        """The namespace, or what is known of one that the bundle does not hold."""
        return self.namespaces.get(name) or {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {NAME_LABEL: name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }


def doubtful(doubt: Doubt, document: Document) -> PolicyFinding:
    """A field that the server would drop or refuse: `kubectl` refuses both by default."""
    rule = "unreadable-field" if doubt.fatal else "unknown-field"
    level: Level = "deny" if doubt.fatal else "warn"
    finding = engine_finding(rule, document, doubt.path, doubt.message, level=level)
    return replace(finding, origin="document", remediation=doubt.remediation)
