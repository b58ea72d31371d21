"""NodeOverlays: the slices that they give a node, compared with what the pools will have.

gpupool writes an overlay for every shared pool, so one that agrees does not need to be carried over. If an
overlay has another number of slices than the pool's configuration, the pool is left out: a person has to
decide which of the two is right. An overlay is about the machines that satisfy all of its requirements
(Karpenter v1.14.1, karpenter.sh/v1alpha1, pkg/controllers/nodeoverlay/controller.go).
"""

from __future__ import annotations

from collections.abc import Sequence

from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.draft import Draft, DraftPool
from gpupool.adopt.convert.karpenter_pools import Fleet
from gpupool.adopt.convert.machines import INSTANCE_TYPE, MachineType, test_of
from gpupool.adopt.convert.pools import Made
from gpupool.adopt.convert.quantities import quantity
from gpupool.adopt.convert.sharing import slices
from gpupool.environment.catalog.project import catalog_here
from gpupool.environment.sharing import GPU_RESOURCE
from gpupool.generators.node_overlays import OVERLAY_WEIGHT

_NODE_POOL = "karpenter.sh/nodepool"
_CAPACITY_TYPE = "karpenter.sh/capacity-type"
_ZONE = "topology.kubernetes.io/zone"
_PROVIDER = ("karpenter.k8s.aws/", "topology.", "node.kubernetes.io/")
"""Labels of machines that the catalog does not have: whether they fit is unknown."""


def account(part: Part, made: Sequence[Made], draft: Draft) -> None:
    """Mark the overlay at `part` as derived where a pool makes Karpenter count the same; take the pool out of
    `draft` where it does not."""
    part.derives("apiVersion", "kind")
    parts = list(part.at("spec", "requirements").each())
    if unknown := [item for item in parts if _unknown(item)]:
        for item in unknown:
            item.left("the catalog does not have this machine label", "name instance types instead")
        return
    chosen = [(one, sizes) for one in made if (sizes := _sizes(parts, one))]
    if not chosen:
        part.left("it matches no machine of a converted pool; gpupool generates overlays")
        return
    for item in parts:
        item.derives("key", "operator", "values")
        _unrelated(item, [one.pool for one, _ in chosen])
    part.at("metadata", "name").derived()
    part.mark_derived_if(OVERLAY_WEIGHT, "spec", "weight")
    for one, sizes in chosen:
        _capacity(part.at("spec", "capacity"), one, sizes, draft)


def _sizes(wanted: Sequence[Part], made: Made) -> list[int]:
    """GPUs of one node, of each kind of the pool's machines that the requirements accept."""
    gpu = catalog_here()[made.pool.gpu]
    machines = [MachineType(gpu, gpu.instance_type(name)) for name in made.pool.instance_types]
    fitting = [
        machine
        for machine in machines
        if any(all(_allows(item, machine, fleet) for item in wanted) for fleet in made.fleets)
    ]
    return sorted({machine.type.gpus for machine in fitting})


def _allows(item: Part, machine: MachineType, fleet: Fleet) -> bool:
    """Whether a requirement accepts a machine of a NodePool."""
    if test := test_of(item):
        return test(machine)
    key = item.word("key")
    listed = [str(value.value) for value in item.at("values").each()]
    labels = {**fleet.labels, **{name: str(part.value) for name, part in fleet.steering.items()}}
    has: Sequence[str] | None = {
        _NODE_POOL: (fleet.name,),
        _CAPACITY_TYPE: fleet.bought.types,
        _ZONE: fleet.bought.zones or listed,
    }.get(key, (labels[key],) if key in labels else None)
    match item.word("operator"):
        case "In":
            return any(value in listed for value in has or ())
        case "NotIn":
            return has is None or any(value not in listed for value in has) or key == _ZONE
        case "Exists":
            return has is not None
        case "DoesNotExist":
            return has is None
    return False


def _unknown(item: Part) -> bool:
    """Whether a requirement is about the machine in a way that the catalog can't answer."""
    key = item.word("key")
    known = key in (_ZONE, _CAPACITY_TYPE) or not key.startswith(_PROVIDER)
    return not known and test_of(item) is None


def _unrelated(item: Part, pools: Sequence[DraftPool]) -> None:
    """List instance types by name that no pool has."""
    if item.word("key") != INSTANCE_TYPE:
        return
    names = ", ".join(pool.name for pool in pools)
    for value in item.at("values").each():
        if not any(value.value in pool.instance_types for pool in pools):
            value.left(f"no machine of {names}")


def _capacity(capacity: Part, made: Made, sizes: Sequence[int], draft: Draft) -> None:
    pool = made.pool
    gpu = catalog_here()[pool.gpu]
    for size in sizes:
        expected = slices(pool.sharing, gpu, size)
        for resource, part in capacity.items():
            want = expected.get(resource, 0 if resource == GPU_RESOURCE else None)
            if want is not None and quantity(part.value) == want:
                part.derived()
            elif resource.startswith("nvidia.com/"):
                _disagrees(part, resource, want or 0, made, draft)
            else:
                part.left("gpupool generates overlays only for slices", "keep your own NodeOverlay for it")


def _disagrees(part: Part, resource: str, want: int, made: Made, draft: Draft) -> None:
    pool = made.pool
    overlay = part.document.name
    why = (
        f"a node has {part.value} {resource} by NodeOverlay {overlay}, and {want} by its configuration "
        f"({_said(pool)})"
    )
    part.left(f"{why}; pool {pool.name} is left out", "correct one of them and convert again", "todo")
    if pool not in draft.pools:
        return
    draft.pools.remove(pool)
    draft.left_out.append(f"{pool.name}: {why}")
    for fleet in made.fleets:
        fleet.part.note("todo", f"pool {pool.name} is left out: {why}", "correct one of them")


def _said(pool: DraftPool) -> str:
    if pool.sharing["mode"] == "exclusive":
        return "whole GPUs, because no configuration in the input says otherwise"
    if pool.sharing["mode"] == "mig":
        return "MIG " + ", ".join(f"{name}: {count}" for name, count in pool.sharing["layout"].items())
    return f"{pool.sharing['mode']} with {pool.sharing['replicas']} replicas"
