"""Requests for subresources: what `pods/exec` or `deployments/scale` ask for, and with which object.

Some have an object of a kind of their own, given as such or made from the parent (subresources.json, from
Kubernetes 1.36, pkg/registry); all others are updates with the parent.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vapcheck.server.kinds import Kinds, Resource, resource_of

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource of one object."""

    name: str
    operation: str
    parent: Resource
    own_kind: tuple[str, str] | None
    """apiVersion and kind of the object of the request, where that is not the parent."""

    def object_of(self, body: Body) -> Body:
        """The object of the request that `body`, which may be the parent, is given for."""
        if self.own_kind is None:
            return body
        api_version, kind = self.own_kind
        made, metadata = body, body.get("metadata") or {}
        if _kind(body) != self.own_kind:
            named = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
            made = {"apiVersion": api_version, "kind": kind, "metadata": named}
        if kind == "Scale":
            replicas = (body.get("spec") or {}).get("replicas", 0 if made is body else 1)
            made = {**made, "spec": {"replicas": replicas} if replicas else {}, "status": {"replicas": 0}}
        return made

    def sent(self, body: Body) -> Body:
        """`body` as policies see it where it is not stored. That of a CONNECT is made of the query, its
        metadata only says here whose subresource is asked for."""
        if self.operation == "CONNECT":
            return {key: value for key, value in body.items() if key != "metadata"}
        return {**body, "metadata": {"namespace": "default", **(body.get("metadata") or {})}}


def subresource_of(body: Body, asked: str, kinds: Kinds) -> Subresource | None:
    """The subresource `asked` (exec, pods/exec, deployments.apps/scale) that an object is given for; None for
    an object that it is none of."""
    parent_name, _, name = asked.rpartition("/")
    plural, _, group = parent_name.partition(".")
    rows = [row for row in _own_kinds() if row[0] == name]
    given = next((row for row in rows if (row[2], row[3]) == _kind(body)), None)
    if given is not None:
        plurals = [known for known in given[4] if plural in ("", known)]
        parents = [
            row
            for row in kinds
            if [row.plural] == plurals
            and group in ("", row.group)
            and kinds.is_builtin(row.api_version, row.kind)
        ]
        return Subresource(name, given[1], parents[0], (given[2], given[3])) if parents else None
    parent = resource_of(body, kinds)
    if plural not in ("", parent.plural) or group not in ("", parent.group):
        return None
    own = next((row for row in rows if parent.plural in row[4]), None)
    if own is not None:
        return Subresource(name, own[1], parent, (own[2], own[3]))
    return None if rows else Subresource(name, "UPDATE", parent, None)


@functools.cache
def _own_kinds() -> list[tuple[str, str, str, str, list[str]]]:
    """Subresource, operation, apiVersion and kind of its object, plurals of the parents."""
    found: list[tuple[str, str, str, str, list[str]]] = json.loads(
        Path(__file__).with_suffix(".json").read_bytes()
    )
    return found


def _kind(body: Mapping[str, Any]) -> tuple[str, str]:
    return str(body.get("apiVersion", "")), str(body.get("kind", ""))
