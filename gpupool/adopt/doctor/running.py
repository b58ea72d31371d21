"""What is in the cluster already and would not get on with the environment: workloads that its policies would
refuse, machine images that follow the newest release, and GPUs that are handed out behind its back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.adopt.doctor.model import CheckResult, DoctorInput, result
from gpupool.adopt.doctor.reasons import Reason
from gpupool.environment.plan.model import POOL_LABEL, Plan
from gpupool.live.cluster.gpu_publishers import RESOURCE_SLICES, UnmodelledWay, unmodelled_ways
from gpupool.live.cluster.snapshot import labels
from gpupool.live.drift.pool_nodes import selects
from gpupool.live.objects import running_workloads

Object = Mapping[str, Any]
_NODE_CLASS = ("karpenter.k8s.aws/v1", "EC2NodeClass")
_LATEST = "@latest"
_RELEASE = re.compile(r"-(v\d{8})$")
"""How the names of Amazon's images end (AL2023, amazon-eks-node-al2023-x86_64-nvidia-1.36-v20251112)."""
_SHOWN = 3


def workloads(inputs: DoctorInput) -> Iterator[CheckResult]:
    """How many of the running workloads the environment's policies would refuse, and which."""
    assert inputs.api is not None
    assert inputs.plan is not None
    assert inputs.bundle is not None
    inputs.notify("checking running workloads against the policies")
    restarts = running_workloads.restarts(inputs.api, inputs.plan, inputs.bundle)
    if not restarts.refused:
        yield result("workloads", Reason.WORKLOADS_FINE, count=restarts.count)
        return
    values = {"refused": len(restarts.refused), "count": restarts.count, "first": restarts.first}
    yield result("workloads", Reason.WORKLOADS_REFUSED, **values)


def images(inputs: DoctorInput) -> Iterator[CheckResult]:
    """Node classes whose image is whatever is newest."""
    assert inputs.api is not None
    assert inputs.plan is not None
    if inputs.plan.cluster.platform != "eks":
        yield result("images", Reason.IMAGES_NONE)
        return
    classes = inputs.api.list(*_NODE_CLASS)
    latest = {row["metadata"]["name"]: alias for row in classes for alias in _latest(row)}
    if not latest:
        yield result("images", Reason.IMAGES_PINNED, count=len(classes))
    for name, alias in sorted(latest.items()):
        live = next(row for row in classes if row["metadata"]["name"] == name)
        family = alias.removesuffix(_LATEST)
        version = _version(live) or "VERSION"
        yield result(f"EC2NodeClass {name}", Reason.IMAGE_LATEST, alias=alias, pinned=f"{family}@{version}")


def _latest(node_class: Object) -> Iterator[str]:
    for term in (node_class.get("spec") or {}).get("amiSelectorTerms") or ():
        alias = str(term.get("alias") or "")
        if alias.endswith(_LATEST):
            yield alias


def _version(node_class: Object) -> str:
    """The release that the class has chosen by now; empty where its images' names do not say it."""
    names = (str(row.get("name", "")) for row in (node_class.get("status") or {}).get("amis") or ())
    return max((match[1] for name in names if (match := _RELEASE.search(name))), default="")


def claims(inputs: DoctorInput) -> Iterator[CheckResult]:
    """What else hands out the GPUs of the pools' nodes."""
    assert inputs.api is not None
    assert inputs.plan is not None
    nodes = {
        row["metadata"]["name"]: row for row in inputs.api.list("v1", "Node") if _of_pool(inputs.plan, row)
    }
    slices = [row for kind in RESOURCE_SLICES for row in inputs.api.list(*kind)]
    by_publisher: dict[tuple[str, bool], list[UnmodelledWay]] = {}
    for way in unmodelled_ways(nodes, slices):
        by_publisher.setdefault((way.publisher, way.by_claim), []).append(way)
    if not by_publisher:
        yield result("claims", Reason.CLAIMS_NONE, count=len(nodes))
    for (publisher, by_claim), ways in sorted(by_publisher.items()):
        names = [way.node for way in ways]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        yield result(
            publisher,
            Reason.CLAIMS_DRIVER if by_claim else Reason.CLAIMS_RESOURCE,
            devices=sum(way.devices for way in ways),
            nodes=f"{', '.join(names[:_SHOWN])}{more}",
        )


def _of_pool(plan: Plan, node: Object) -> bool:
    """Whether the node is a pool's, or would be."""
    name = node["metadata"]["name"]
    return POOL_LABEL in labels(dict(node)) or any(
        name in pool.node_names or selects(pool, dict(node)) for pool in plan.pools
    )
