"""NetworkPolicies: block access to a tenant's namespace from outside; its pods can't read the node's
credentials."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.environment.plan.model import SYSTEM_NAMESPACE, Plan
from gpupool.environment.plan.tenants import Tenant
from gpupool.environment.reserved_addresses import closed_networks
from gpupool.environment.schema.chart_values import API_SERVER_PORTS
from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import manifest_of

_ANYWHERE = [
    {"protocol": "UDP", "port": 53},
    *({"protocol": "TCP", "port": port} for port in (53, *API_SERVER_PORTS)),
]
"""DNS and the API server, which may be on nodes: Cilium matches those by no ipBlock. No address of
`gpupool.environment.reserved_addresses` hands out credentials at these."""


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
                        {"ipBlock": {"cidr": "0.0.0.0/0", "except": closed_networks(4)}},
                        {"ipBlock": {"cidr": "::/0", "except": closed_networks(6)}},
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
