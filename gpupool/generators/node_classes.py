"""What a pool's machines are made of: an EC2NodeClass per pool on EKS, one KWOKNodeClass locally."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.environment.plan.karpenter_pools import KarpenterPool, karpenter_pools
from gpupool.environment.plan.model import ENVIRONMENT_LABEL, POOL_LABEL, Plan, Pool
from gpupool.environment.spec.environment import Karpenter
from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import manifest_of

LOCAL_CLASS = "default"


def generate(plan: Plan) -> Iterator[Manifest]:
    pools = karpenter_pools(plan)
    if plan.cluster.platform == "local" and pools:
        yield manifest_of(plan, "KWOKNodeClass", LOCAL_CLASS, spec={})
    if plan.cluster.platform == "eks" and plan.karpenter is not None:
        for started in pools:
            yield _ec2(plan, plan.karpenter, started)


def reference(plan: Plan, started: KarpenterPool) -> dict[str, str]:
    """The nodeClassRef of the pool's NodePools."""
    if plan.cluster.platform == "local":
        return {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": LOCAL_CLASS}
    return {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": started.pool.name}


def _image(karpenter: Karpenter, pool: Pool) -> dict[str, Any]:
    if pool.image is None:
        return {"amiSelectorTerms": [{"alias": karpenter.ami_alias}]}
    terms = {"amiFamily": pool.image.family, "amiSelectorTerms": pool.image.terms()}
    return terms | ({"userData": pool.image.user_data} if pool.image.user_data else {})


def _ec2(plan: Plan, karpenter: Karpenter, started: KarpenterPool) -> Manifest:
    pool = started.pool
    discovered = [{"tags": {"karpenter.sh/discovery": karpenter.discovery_tag}}]
    machine = pool.machine
    subnets = [term.body() for term in machine.subnets or karpenter.subnets]
    groups = [term.body() for term in machine.security_groups or karpenter.security_groups]
    reserved = [row.selector() for row in pool.reserved]
    spec = {
        "role": karpenter.node_role,
        **_image(karpenter, pool),
        "subnetSelectorTerms": subnets or discovered,
        "securityGroupSelectorTerms": groups or discovered,
        **({"capacityReservationSelectorTerms": reserved} if reserved else {}),
        **({"placementGroupSelector": machine.placement_group.body()} if machine.placement_group else {}),
        **({"kubelet": machine.kubelet.body()} if machine.kubelet else {}),
        "blockDeviceMappings": [machine.root_volume.mapping()],
        # The local disks of large machines, striped, for images and scratch files.
        "instanceStorePolicy": "RAID0",
        "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1},
        # Tags that cost reports can be split by.
        "tags": {**machine.tags, ENVIRONMENT_LABEL: plan.environment, POOL_LABEL: pool.name},
    }
    return manifest_of(plan, "EC2NodeClass", pool.name, pool=pool, spec=spec)
