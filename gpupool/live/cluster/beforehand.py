"""What is asked before an object is written: whether it has a place in the cluster, and whether we may."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupool.live.cluster.kube_api import KubeApi


def has_place(api: KubeApi, body: Mapping[str, Any]) -> bool:
    """Whether the server knows the object's kind and has its namespace, without which it can't try it."""
    where = api.resource(body["apiVersion"], body["kind"])
    if where is None:
        return False
    namespace = body["metadata"].get("namespace")
    return not (where.namespaced and namespace and api.get("v1", "Namespace", namespace) is None)


def may(api: KubeApi, **attributes: str) -> bool:
    """Whether the account has a right. `attributes` are those of a SelfSubjectAccessReview (group, resource,
    subresource, verb, namespace, name); empty ones are left out, and then stand for all."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
    }
    return bool(api.create(review)["status"].get("allowed"))
