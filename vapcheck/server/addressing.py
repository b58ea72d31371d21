"""What a request for an object addresses: its resource and its namespace, known or guessed.

It must not read policies or change objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vapcheck.manifests.objects import mapping_in
from vapcheck.server.kinds import Kinds, Resource


def resource_of(body: Mapping[str, Any], kinds: Kinds) -> Resource:
    """The resource of an object; of an unknown kind the most likely one: with the plural that `kubectl` would
    guess, and namespaced, as most are."""
    api_version, kind = str(body.get("apiVersion", "")), str(body.get("kind", ""))
    known = kinds.resource(api_version, kind)
    if known is not None:
        return known
    group, _, version = api_version.rpartition("/")
    return Resource(group, version, kind, guessed_plural(kind), namespaced=True)


def namespace_of(body: Mapping[str, Any]) -> str:
    """The namespace that an object names, or nothing."""
    return str(mapping_in(body, "metadata").get("namespace") or "")


def guessed_plural(kind: str) -> str:
    """The usual plural of a kind's name (as apimachinery's UnsafeGuessKindToResource does)."""
    name = kind.lower()
    if name.endswith("s"):
        return name + "es"
    if name.endswith("y"):
        return name[:-1] + "ies"
    return name + "s"
