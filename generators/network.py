"""NetworkPolicies: block access to a tenant's namespace from outside; its pods can't read the node's
credentials."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from generators.manifest import Manifest
from generators.metadata import manifest_of
from gpupool.plan.model import SYSTEM_NAMESPACE, Plan
from gpupool.plan.tenants import Tenant

_METADATA_SERVICE = ("169.254.169.254/32", "fd00:ec2::254/128")
"""Addresses of the instance metadata service of EC2 (the first also of GCE, Azure): it hands out the node's
IAM role."""


def generate(plan: Plan) -> Iterator[Manifest]:
    yield _policy(plan, SYSTEM_NAMESPACE, {"policyTypes": ["Ingress"], "ingress": []})
    for tenant in plan.tenants:
        spec = {
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"from": [{"podSelector": {}}, *_namespaces(SYSTEM_NAMESPACE, *tenant.ingress_from)]}
            ],
            "egress": [
                {"to": [{"podSelector": {}}, {"namespaceSelector": {}}]},
                {
                    "to": [
                        {"ipBlock": {"cidr": "0.0.0.0/0", "except": [_METADATA_SERVICE[0]]}},
                        {"ipBlock": {"cidr": "::/0", "except": [_METADATA_SERVICE[1]]}},
                    ]
                },
            ],
        }
        yield _policy(plan, tenant.namespace, spec, tenant)


def _namespaces(*names: str) -> list[dict[str, Any]]:
    return [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}} for name in names]


def _policy(plan: Plan, namespace: str, spec: dict[str, Any], tenant: Tenant | None = None) -> Manifest:
    every = {"podSelector": {}, **spec}
    return manifest_of(plan, "NetworkPolicy", "gpupool", namespace, tenant=tenant, spec=every)
