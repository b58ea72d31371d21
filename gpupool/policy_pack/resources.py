"""Resources of a Pulumi stack -> Kubernetes objects, each with the URN that Pulumi knows it by.

A stack is judged by the outputs of its resources (that is what Pulumi hands to a stack policy): the object
as the API server answered it, in a preview its dry run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pulumi_policy.proxy import UnknownValueError

from gpupool.cluster.live_objects import as_sent

_PROVIDER = "kubernetes:"


class Resource(Protocol):
    """What is read of pulumi_policy's PolicyResource."""

    resource_type: str
    urn: str
    name: str
    props: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StackObject:
    """One Kubernetes object of the stack."""

    urn: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A resource that may be an object but can't be judged, and why."""

    urn: str
    why: str


def objects(resources: Iterable[Resource]) -> tuple[list[StackObject], list[Unjudged]]:
    """The Kubernetes objects among `resources`, and those that can't be judged.

    Silently left out: other providers' resources, components (their children are resources of their
    own), and patches of objects that somebody else owns, because Pulumi does not pass what those were before
    (the cluster's own admission judges them, in a preview too).
    """
    stack_objects: list[StackObject] = []
    unjudged: list[Unjudged] = []
    for resource in resources:
        if not resource.resource_type.startswith(_PROVIDER):
            continue
        kind = resource.resource_type.rpartition(":")[2]
        if resource.resource_type.split(":")[1].startswith("helm.sh/") and kind == "Release":
            unjudged.append(Unjudged(resource.urn, "what its chart makes is not known to Pulumi"))
            continue
        try:
            body = _plain(resource.props)
        except UnknownValueError as error:
            unjudged.append(Unjudged(resource.urn, f"{'.'.join(error.props)} is not known before `up`"))
            continue
        is_object = all(isinstance(body.get(key), str) for key in ("apiVersion", "kind"))
        if is_object and kind != f"{body['kind']}Patch":
            # What is judged is what is sent; a new object has no status (registry/rest.BeforeCreate).
            stack_objects.append(StackObject(resource.urn, as_sent(body)))
    return stack_objects, unjudged


def _plain(value: Any) -> Any:
    """Plain JSON values of pulumi_policy's proxies. Raises UnknownValueError.

    Pulumi's wire format has doubles only and Kubernetes integers: whole numbers are integers.
    """
    if isinstance(value, Mapping):
        return {key: _plain(value[key]) for key in value}
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(value[index]) for index in range(len(value))]
    return value
