"""Which resources of a stack are Kubernetes objects, and as what they are judged."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, unknown_checking_proxy

from gpupool.policy_pack.resources import StackObject, Unjudged, objects

URN = "urn:pulumi:trial::shop::"


class _Resource:
    def __init__(self, token: str, props: dict[str, Any]) -> None:
        self.resource_type = token
        self.name = str((props.get("metadata") or {}).get("name"))
        self.urn = f"{URN}{token}::{self.name}"
        # The very proxies that the engine's answer is wrapped in.
        self.props = unknown_checking_proxy(props)


def _map(**more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **more}


def test_objects_are_judged_as_they_are_sent() -> None:
    live = {
        **_map(data={"key": "value"}, items=[1.0, {"ratio": 0.5}], on=True),
        "metadata": {
            "name": "a",
            "uid": "0",
            "resourceVersion": "7",
            "managedFields": [{}],
            "labels": {"x": "y"},
        },
        "status": {"phase": "Active"},
    }
    token = "kubernetes:core/v1:ConfigMap"
    found, unjudged = objects([_Resource(token, live)])
    body = _map(data={"key": "value"}, items=[1, {"ratio": 0.5}], on=True)
    body["metadata"] = {"name": "a", "labels": {"x": "y"}}
    assert (found, unjudged) == ([StackObject(f"{URN}{token}::a", body)], [])
    assert type(found[0].body["items"][0]) is int
    assert type(found[0].body["on"]) is bool


@pytest.mark.parametrize(
    ("token", "props"),
    [
        ("aws:s3/bucket:Bucket", _map()),
        ("pulumi:providers:kubernetes", _map()),
        ("kubernetes:yaml/v2:ConfigGroup", {}),
        ("kubernetes:core/v1:NodePatch", {**_map(), "kind": "Node"}),
    ],
)
def test_what_is_no_new_object_is_left_out(token: str, props: dict[str, Any]) -> None:
    assert objects([_Resource(token, props)]) == ([], [])


def test_a_kind_called_patch_is_an_object() -> None:
    found, _ = objects([_Resource("kubernetes:example.com/v1:Patch", {**_map(), "kind": "Patch"})])
    assert len(found) == 1


def test_what_can_not_be_judged_is_said() -> None:
    release = _Resource("kubernetes:helm.sh/v3:Release", {"name": "chart", "metadata": {"name": "chart"}})
    later = _Resource("kubernetes:core/v1:ConfigMap", _map(data={"url": UNKNOWN_STRING_VALUE}))
    found, unjudged = objects([release, later])
    assert found == []
    assert unjudged == [
        Unjudged(release.urn, "what its chart makes is not known to Pulumi"),
        Unjudged(later.urn, "data.url is not known before `up`"),
    ]
