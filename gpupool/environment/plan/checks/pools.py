"""Pools: the GPU exists, can be shared that way, and sits in those machines."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.catalog.models import CatalogError, GpuModel, OtherVendorError
from gpupool.environment.plan.capacity import parse_window
from gpupool.environment.plan.checks.context import CheckContext, PlanProblem, closest
from gpupool.environment.plan.cloud_facts import bound
from gpupool.environment.plan.platforms import PLATFORMS
from gpupool.environment.sharing.mode import GPU_RESOURCE, MIG_RESOURCE
from gpupool.environment.sharing.replicated import Replicated, too_few_replicas
from gpupool.environment.spec import environment as spec
from gpupool.environment.spec.yaml_source import Loc

_CLOUD_FIELDS = (
    "instance_types",
    "max_gpus",
    "warm",
    "spot_share",
    "capacity",
    "reserved",
    "reserved_consolidate_after",
    "zones",
    "termination_grace_period",
    "root_volume",
    "subnets",
    "security_groups",
    "kubelet",
    "startup_taints",
    "placement_group",
    "efa",
    "tags",
)
_STATIC_FIELDS = ("names", "selector", "gpus", "size")


def cluster(context: CheckContext) -> Iterator[PlanProblem]:
    """Fields that an EKS cluster requires."""
    environment = context.environment
    if context.platform != "eks" or (environment.pools and not any(map(context.buys, environment.pools))):
        return
    if not environment.cluster.region:
        yield PlanProblem(
            ("cluster", "region"), "platform eks needs a region", 'add region, e.g. "us-east-1"'
        )
    if not environment.karpenter.node_role:
        remediation = "add karpenter.nodeRole, the IAM role that Karpenter gives to nodes"
        yield PlanProblem(("karpenter", "nodeRole"), "platform eks needs the nodes' IAM role", remediation)


def platform_fields(context: CheckContext) -> Iterator[PlanProblem]:
    """Cloud pools have instance types and a maximum; static pools have names or a selector."""
    platform = context.platform
    if platform is None:
        return
    karpenter = PLATFORMS[platform].karpenter
    for index, pool in enumerate(context.environment.pools):
        loc: Loc = ("pools", index, "nodes")
        bought = context.buys(pool)
        chosen = "instanceTypes" if bought else "names or a selector"
        where = f"beside {chosen}" if karpenter else f"on platform {platform}"
        for field in _STATIC_FIELDS if bought else _CLOUD_FIELDS:
            if field in pool.nodes.model_fields_set:
                alias = spec.Nodes.model_fields[field].alias or field
                yield PlanProblem(
                    (*loc, alias),
                    f"nodes.{alias} has no effect {where}",
                    f"remove it; nodes are selected by {chosen} there",
                )
        yield from _cloud_nodes(loc, pool.nodes) if bought else _static_nodes(context, loc, pool.nodes)
        yield from _extended_resources(loc, pool.nodes)


def _extended_resources(loc: Loc, nodes: spec.Nodes) -> Iterator[PlanProblem]:
    """Kubernetes accepts no other names of extended resources (1.36); those of GPUs are the sharing's."""
    for name in nodes.extended_resources:
        place = (*loc, "extendedResources", name)
        if name.startswith((GPU_RESOURCE, MIG_RESOURCE)):
            message = f"{name} is a GPU resource, which follows from the pool's sharing"
            yield PlanProblem(place, message, "remove it; nodes.gpus is the number of GPUs of a node")
        elif name.startswith("requests.") or name.split("/")[0].endswith("kubernetes.io"):
            message = f"{name} is not the name of an extended resource"
            yield PlanProblem(
                place, message, "use a domain other than kubernetes.io, without the prefix requests."
            )


def _cloud_nodes(loc: Loc, nodes: spec.Nodes) -> Iterator[PlanProblem]:
    if not nodes.instance_types:
        yield PlanProblem(
            (*loc, "instanceTypes"),
            "there are no instance types",
            "list the instance types that the pool may start",
        )


def _static_nodes(context: CheckContext, loc: Loc, nodes: spec.Nodes) -> Iterator[PlanProblem]:
    remediation = "use exactly one of nodes.names and nodes.selector"
    chosen_by = ((*loc, "names"), (*loc, "selector"))
    if nodes.names and nodes.selector:
        yield PlanProblem(loc, "both names and a selector select the nodes", remediation, chosen_by)
    # Broken ones have a finding already, and an unknown field may be a misspelling of one of them.
    unknown = any(map(context.gaps.touches, chosen_by)) or context.gaps.has_unknown_field_at(loc)
    if not nodes.names and not nodes.selector and not unknown:
        yield PlanProblem(loc, "neither names nor a selector selects the nodes", remediation, chosen_by)
    if nodes.selector and nodes.max is None:
        yield PlanProblem(
            (*loc, "max"),
            'field "max" is missing',
            "add the maximum number of nodes that the selector matches",
        )
    counted = nodes.names and not context.gaps.touches((*loc, "names"))
    if counted and nodes.max not in (None, len(nodes.names)):
        message = f"max {nodes.max} disagrees with the {len(nodes.names)} names listed"
        yield PlanProblem((*loc, "max"), message, "remove max when nodes are named")


def cloud_sharing(context: CheckContext) -> Iterator[PlanProblem]:
    """Where the cloud shares GPUs, there is no operator to set, and its own bounds hold."""
    if context.platform is None or PLATFORMS[context.platform].operator:
        return
    environment = context.environment
    if "gpu_operator" in environment.model_fields_set:
        message = (
            f"gpuOperator has no effect on platform {context.platform}, whose node pools share "
            "GPUs themselves"
        )
        yield PlanProblem(("gpuOperator",), message, "remove it")
    for index, pool in enumerate(environment.pools):
        replicas = getattr(pool.sharing, "replicas", None)
        clients = bound("podsPerGpuOnGke")
        least, most = clients.value
        if replicas is not None and not least <= replicas <= most:
            message = f"a node pool shares a GPU among {least} to {most} pods, not {replicas}"
            yield PlanProblem(("pools", index, "sharing", "replicas"), message, f"correct it {clients.why}")
        if getattr(pool.sharing, "rename_by_default", False):
            message = f"platform {context.platform} always names the resource of slices nvidia.com/gpu"
            yield PlanProblem(
                ("pools", index, "sharing", "renameByDefault"), message, "remove renameByDefault"
            )


def instance_types(context: CheckContext) -> Iterator[PlanProblem]:
    for index, pool in enumerate(context.environment.pools):
        gpu = context.gpu(pool.gpu)
        if gpu is None:
            continue
        for position, name in enumerate(pool.nodes.instance_types):
            loc: Loc = ("pools", index, "nodes", "instanceTypes", position)
            if pool.nodes.instance_types.index(name) < position:
                yield PlanProblem(loc, f"{name} is listed twice", "list it once")
            else:
                yield from _instance_type(context, loc, gpu, name)


def _instance_type(context: CheckContext, loc: Loc, gpu: GpuModel, name: str) -> Iterator[PlanProblem]:
    eks = context.platform == "eks"
    usable = [candidate.name for candidate in gpu.instance_types if candidate.karpenter or not eks]
    carried = ", ".join(usable) or ("no type that Karpenter can start" if eks else "none in the catalog")
    remediation = f"instance types with the {gpu.title}: {carried}"
    try:
        instance_type = gpu.instance_type(name)
    except CatalogError:
        owner = context.catalog.owner(name)
        if owner is not None:
            yield PlanProblem(loc, f"{name} carries the {owner.title}, not the {gpu.title}", remediation)
        elif reason := context.catalog.against(name):
            yield PlanProblem(loc, f"{name} can't serve a pool: {reason}", remediation)
        else:
            yield PlanProblem(loc, f"{name} is not in the catalog", remediation)
        return
    if context.platform == "local" and gpu.own_file is not None and load_catalog().owner(name) is None:
        message = f"the local control plane does not simulate {name}, which is only in this project's catalog"
        yield PlanProblem(loc, message, "use an instance type of a GPU that ships with gpupool")
    if eks and not instance_type.karpenter:
        yield PlanProblem(
            loc,
            f"Karpenter can't start {name}: "
            f"{instance_type.note or 'its AWS provider does not know the type'}",
            remediation,
        )


def sharing(context: CheckContext) -> Iterator[PlanProblem]:
    """The GPU is in the catalog and can be divided as asked."""
    for index, pool in enumerate(context.environment.pools):
        shared, loc = context.sharing(pool), ("pools", index, "sharing")
        if pool.gpu in context.catalog.broken:
            continue
        try:
            gpu = context.catalog[pool.gpu]
        except CatalogError as error:
            ready = "" if isinstance(error, OtherVendorError) else context.new_gpu(pool.gpu)
            yield PlanProblem(("pools", index, "gpu"), error.message, error.remediation, ready=ready)
            if isinstance(shared, Replicated):
                for problem in too_few_replicas(shared.replicas):
                    yield PlanProblem((*loc, problem.field), problem.message, problem.remediation)
            continue
        for problem in shared.problems(gpu):
            field = (*loc, problem.field)
            # What is wrong with a part of a layout is wrong with all of it.
            yield PlanProblem(field, problem.message, problem.remediation, (field,) if shared.layout else ())


def zones(context: CheckContext) -> Iterator[PlanProblem]:
    """Zones lie in the cluster's region; elsewhere no node could ever start."""
    region = context.environment.cluster.region
    for index, pool in enumerate(context.environment.pools):
        for position, zone in enumerate(pool.nodes.zones):
            loc: Loc = ("pools", index, "nodes", "zones", position)
            if pool.nodes.zones.index(zone) < position:
                yield PlanProblem(loc, f"zone {zone!r} is listed twice", "list it once")
            elif context.platform == "eks" and region and not zone.startswith(region):
                yield PlanProblem(
                    loc, f"zone {zone!r} is not in region {region}", f"name a zone such as {region}a"
                )


def fallbacks(context: CheckContext) -> Iterator[PlanProblem]:
    pools = {pool.name: (index, pool) for index, pool in enumerate(context.environment.pools)}
    for index, pool in enumerate(context.environment.pools):
        for position, name in enumerate(pool.fallback_to):
            loc: Loc = ("pools", index, "fallbackTo", position)
            if context.gaps.covers(("pools",)):
                continue
            if name not in context.named["pools"]:
                yield PlanProblem(
                    loc, f"pool {name!r} is not defined", closest(name, context.defined("pools"))
                )
            elif name == pool.name:
                yield PlanProblem(loc, f"pool {name!r} can't fall back to itself", "name another pool")
            elif name in pools:
                for at, side in ((index, pool), pools[name]):
                    if context.gaps.touches(("pools", at, "sharing")):
                        continue
                    if not context.sharing(side).may_fall_back:
                        message = (
                            f"pool {side.name!r} shares its GPUs by {side.sharing.mode}, so its "
                            "jobs can't move"
                        )
                        yield PlanProblem(loc, message, "use fallbackTo between time-sliced pools only")
                        break


def maintenance(context: CheckContext) -> Iterator[PlanProblem]:
    for index, pool in enumerate(context.environment.pools):
        loc: Loc = ("pools", index, "maintenance")
        if pool.maintenance.window is not None:
            try:
                parse_window(pool.maintenance.window)
            except ValueError as error:
                message = f"{pool.maintenance.window!r} is not a maintenance window: {error}"
                yield PlanProblem(
                    (*loc, "window"), message, 'write it as "Sat 02:00-06:00 UTC" or "daily 01:00-03:00 UTC"'
                )
