"""A clean cluster of a small environment as plain dictionaries, for checks that ask no server."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source
from gpupool.generators import generate
from gpupool.live.cluster.snapshot import ClusterSnapshot
from gpupool.live.drift import Drift, examine
from vapcheck import Kinds
from vapcheck.server.admission_view import as_admitted

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
Object = dict[str, Any]

EKS = """
apiVersion: gpupool.dev/v1alpha1
kind: Environment
metadata: {name: trial}
cluster: {platform: eks, name: trial, region: us-east-1}
karpenter: {nodeRole: nodes}
pools:
  - name: shared
    gpu: t4
    sharing: {mode: time-slicing, replicas: 4}
    nodes: {instanceTypes: [g4dn.xlarge], max: 2}
  - name: parted
    gpu: a100-80gb
    sharing: {mode: mig, layout: {3g.40gb: 2}}
    nodes: {instanceTypes: [p4de.24xlarge], max: 2}
tenants:
  - {name: vision, namespace: team-vision, pools: {shared: {gpus: 1}}}
"""
STATIC = """
apiVersion: gpupool.dev/v1alpha1
kind: Environment
metadata: {name: lab}
cluster: {platform: static, name: lab}
gpuOperator: {install: false}
pools:
  - name: desk
    gpu: rtx-4090
    nodes: {names: [lab-0]}
  - name: rack
    gpu: rtx-4090
    sharing: {mode: time-slicing, replicas: 2}
    nodes: {selector: {rack: one}, max: 4}
"""


def plan_of(text: str) -> Plan:
    name = "lab" if "name: lab" in text else "trial"
    return resolve(check_shape(parse_source(f"{name}.yaml", text.encode())))


def stamp(seconds: float) -> str:
    """The time so many seconds ago, as Kubernetes writes it."""
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Cluster:
    """What a server would hold; a test changes it and looks."""

    def __init__(self, text: str = EKS) -> None:
        self.plan = plan_of(text)
        self.bundle = generate(self.plan)
        self.objects: dict[tuple[str, str], dict[tuple[str | None, str], Object]] = {}
        for manifest in self.bundle:
            if not (manifest.patch and manifest.kind == "Node"):
                self.add(_stored(dict(manifest.body)), manager="gpupool")
        for release in self.bundle.releases:
            chart = {"helm.sh/chart": f"{release.chart}-{release.version}"}
            metadata = {"name": release.name, "namespace": release.namespace, "labels": chart}
            # As Karpenter's chart has it; of other charts' variables nothing is read.
            gates = {"name": "FEATURE_GATES", "value": "NodeOverlay=true"}
            spec = {"template": {"spec": {"containers": [{"name": "main", "env": [gates]}]}}}
            self.add({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
        for kind in ("NodePool", "EC2NodeClass"):
            for row in self.of(kind):
                row["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
        for row in self.of("NodeOverlay"):
            row["status"] = {"conditions": [{"type": "ValidationSucceeded", "status": "True"}]}
        if self.bundle.releases:
            self.add(self._policy())

    def _policy(self) -> Object:
        from gpupool.generators import gpu_operator

        spec = gpu_operator._policy_spec(gpu_operator.values(self.plan))
        metadata = {"name": "cluster-policy", "creationTimestamp": stamp(90000)}
        return {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": metadata, "spec": spec}

    def add(self, body: Object, manager: str = "somebody", age: float = 90000) -> Object:
        metadata = body["metadata"]
        metadata.setdefault("creationTimestamp", stamp(age))
        metadata.setdefault(
            "managedFields", [{"manager": manager, "operation": "Apply", "time": stamp(age), "fieldsV1": {}}]
        )
        held = self.objects.setdefault((body["apiVersion"], body["kind"]), {})
        held[metadata.get("namespace"), metadata["name"]] = body
        return body

    def of(self, kind: str) -> list[Object]:
        return [row for (_, k), held in self.objects.items() if k == kind for row in held.values()]

    def get(self, kind: str, name: str) -> Object:
        (found,) = [row for row in self.of(kind) if row["metadata"]["name"] == name]
        return found

    def node(self, pool: str, name: str = "node-0", age: float = 90000, **labels: str) -> Object:
        """A serving node of a pool; with its claim where Karpenter starts the pool's nodes."""
        found = self.plan.pool(pool)
        machine = found.machines[0]
        have = {**found.labels, **found.node_selector, "nvidia.com/gpu.present": "true", **labels}
        if found.capacities:
            have |= {
                "karpenter.sh/nodepool": found.capacities[0].name,
                "karpenter.sh/initialized": "true",
                "node.kubernetes.io/instance-type": str(machine.instance_type),
            }
            steps = [{"type": kind, "status": "True"} for kind in ("Launched", "Registered", "Initialized")]
            self.add(
                {
                    "apiVersion": "karpenter.sh/v1",
                    "kind": "NodeClaim",
                    "metadata": {
                        "name": f"claim-{name}",
                        "labels": {"karpenter.sh/nodepool": found.capacities[0].name},
                    },
                    "status": {"nodeName": name, "conditions": steps},
                },
                age=age,
            )
        offered = {key: str(count) for key, count in machine.slices.items()}
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp(age)}
        return self.add(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": have, "annotations": {}},
                "spec": {"taints": [taint.as_dict() for taint in found.taints]},
                "status": {"capacity": dict(offered), "allocatable": offered, "conditions": [ready]},
            },
            age=age,
        )

    def examine(self) -> tuple[Drift, ...]:
        return examine(self.plan, self.bundle, ClusterSnapshot(self.objects, NOW), NOW)


def _stored(body: Object) -> Object:
    """The object as a server would hold it."""
    if Kinds.builtin().resource(body["apiVersion"], body["kind"]) is None:
        return deepcopy(body)
    stored = as_admitted(deepcopy(body), Kinds.builtin(), operation="UPDATE")
    stored["metadata"].pop("creationTimestamp")
    return stored


def kinds(drifts: Iterable[Drift]) -> list[tuple[str, str]]:
    """(kind, level) of each."""
    return [(drift.code, drift.category.value) for drift in drifts]
