"""NodeOverlays: what they say of a node's slices, held against what the pools will have.

gpupool writes an overlay for every shared pool by itself, so one that agrees is nothing to carry over, and
one that does not is said to disagree. Karpenter v1.14.1, karpenter.sh/v1alpha1.
"""

from __future__ import annotations

from collections.abc import Sequence

from conversion.account import Part
from conversion.draft import DraftPool
from conversion.machines import INSTANCE_TYPE
from conversion.pools import Made
from conversion.quantities import quantity
from conversion.sharing import slices
from gpupool.project_catalog import catalog_here
from gpupool.sharing import GPU_RESOURCE

_NODE_POOL = "karpenter.sh/nodepool"


def account(part: Part, made: Sequence[Made]) -> None:
    """Mark the overlay at `part` as derived where a pool makes Karpenter count the same."""
    for key in ("apiVersion", "kind"):
        if inner := part.at(key):
            inner.derived()
    chosen = _requirements(part)
    pools = [
        m.pool
        for m in made
        if chosen is not None and {f.name for f in m.fleets} & set(chosen.get(_NODE_POOL, ()))
    ]
    types = (chosen or {}).get(INSTANCE_TYPE)
    if not pools:
        part.left("it is for no pool that was carried over; gpupool writes overlays for its pools by itself")
        return
    requirements = part.at("spec", "requirements")
    for item in requirements.each() if requirements else ():
        item.derives("key", "operator", "values")
        about, values = item.at("key"), item.at("values")
        for value in values.each() if values and about and about.value == INSTANCE_TYPE else ():
            if not any(value.value in pool.instance_types for pool in pools):
                value.left(f"no machine of {', '.join(pool.name for pool in pools)}")
    if name := part.at("metadata", "name"):
        name.derived()
    part.says(100, "spec", "weight")  # generators.node_overlays
    if capacity := part.at("spec", "capacity"):
        _capacity(capacity, pools, types)


def _capacity(capacity: Part, pools: Sequence[DraftPool], types: Sequence[str] | None) -> None:
    for pool in pools:
        for expected in _expected(pool, types):
            for resource, part in capacity.items():
                want = expected.get(resource, 0 if resource == GPU_RESOURCE else None)
                if want is not None and quantity(part.value) == want:
                    part.derived()
                else:
                    what = f"{want} of it" if want else "none of it"
                    part.left(
                        f"a node of pool {pool.name} will have {what}, which is what Karpenter will be told",
                        "correct the pool's sharing if the overlay is right",
                    )


def _expected(pool: DraftPool, types: Sequence[str] | None) -> list[dict[str, int]]:
    gpu = catalog_here()[pool.gpu]
    sizes = {gpu.instance_type(name).gpus for name in pool.instance_types if types is None or name in types}
    return [slices(pool.sharing, gpu, size) for size in sorted(sizes)]


def _requirements(part: Part) -> dict[str, list[str]] | None:
    """Key -> values; None where one is no plain In."""
    found: dict[str, list[str]] = {}
    requirements = part.at("spec", "requirements")
    for item in requirements.each() if requirements else ():
        data = item.value if isinstance(item.value, dict) else {}
        values = data.get("values")
        if data.get("operator") != "In" or not isinstance(values, list):
            return None
        found[str(data.get("key"))] = [str(value) for value in values]
    return found
