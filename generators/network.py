"""NetworkPolicies: block access to a tenant's namespace from outside; its pods can't read the node's
credentials."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from generators.manifest import Manifest
from generators.metadata import manifest_of
from gpupool.plan.model import SYSTEM_NAMESPACE, Plan
from gpupool.plan.tenants import Tenant
from gpupool.schema.chart_values import API_SERVER_PORTS

_METADATA_SERVICE = ("169.254.169.254/32", "fd00:ec2::254/128")
"""Addresses of the instance metadata service of EC2 (the first also of GCE, Azure): it hands out the node's
IAM role."""
_ANYWHERE = [
    {"protocol": "UDP", "port": 53},
    *({"protocol": "TCP", "port": port} for port in (53, *API_SERVER_PORTS)),
]
"""DNS and the API server, which may be on nodes: Cilium matches those by no ipBlock. The metadata service
hands out credentials at none of these."""


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
                {"ports": _ANYWHERE},
            ],
        }
        yield _policy(plan, tenant.namespace, spec, tenant)


def _namespaces(*names: str) -> list[dict[str, Any]]:
    return [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}} for name in names]


def _policy(plan: Plan, namespace: str, spec: dict[str, Any], tenant: Tenant | None = None) -> Manifest:
    every = {"podSelector": {}, **spec}
    return manifest_of(plan, "NetworkPolicy", "gpupool", namespace, tenant=tenant, spec=every)
