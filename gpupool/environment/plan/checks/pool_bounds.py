"""How large a pool may get: by nodes or, where machines have different numbers of GPUs, by physical GPUs.

Karpenter counts nodes only between two batches of pods (kubernetes-sigs/karpenter#2915), while its limit of
slices holds within a batch too. Where all machines have the same number of GPUs the two say the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.plan.checks.context import CheckContext, PlanProblem
from gpupool.environment.spec import environment as spec
from gpupool.environment.spec.yaml_source import Loc


def bounds(context: CheckContext) -> Iterator[PlanProblem]:
    for index, pool in enumerate(context.environment.pools):
        loc: Loc = ("pools", index, "nodes")
        sizes = context.machine_sizes(pool) or [1]
        if context.buys(pool):
            yield from _bound(context, loc, pool.nodes, sizes)
        yield from _within(("pools", index), pool, sizes)
        yield from _capacity(loc, pool.nodes)


def _capacity(loc: Loc, nodes: spec.Nodes) -> Iterator[PlanProblem]:
    """Karpenter takes spot nodes before on-demand ones, in whatever order they are listed (1.14.1)."""
    if not nodes.capacity:
        return
    share, at = "spot_share" in nodes.model_fields_set, (*loc, "capacity")
    if nodes.capacity != ["spot", "on-demand"]:
        listed = ", ".join(nodes.capacity)
        instead = {"spot": "use spotShare: 1", "on-demand": "remove it to get on-demand nodes"}
        remediation = instead.get(listed, "use [spot, on-demand]")
        yield PlanProblem(at, f"capacity [{listed}] is not [spot, on-demand]", remediation)
    elif share:
        message = f"capacity and spotShare {nodes.spot_share:g} both set the share of spot nodes"
        remediation = "remove one of them: spotShare sets a fixed share, capacity uses spot while available"
        yield PlanProblem(at, message, remediation, (at, (*loc, "spotShare")))


def _bound(context: CheckContext, loc: Loc, nodes: spec.Nodes, sizes: list[int]) -> Iterator[PlanProblem]:
    both = ((*loc, "max"), (*loc, "maxGpus"))
    alike = len(sizes) == 1
    field, counted = ("max", "nodes") if alike else ("maxGpus", "GPUs")
    if nodes.max is None and nodes.max_gpus is None:
        if not any(map(context.gaps.touches, both)):
            message = f'field "{field}" is missing'
            yield PlanProblem(
                (*loc, field), message, f"add the maximum number of {counted}; every pool needs one"
            )
    elif nodes.max is not None and nodes.max_gpus is not None:
        message = f"max {nodes.max} and maxGpus {nodes.max_gpus} both limit the pool"
        yield PlanProblem(both[0], message, f"remove {'maxGpus' if alike else 'max'}", both)
    elif nodes.max is not None and not alike:
        machines = f"machines of {' and '.join(map(str, sizes))} GPUs"
        message = (
            f"max {nodes.max} can't be enforced with {machines}: Karpenter does not count nodes while it "
            "starts several"
        )
        remediation = f"use maxGpus: {nodes.max * sizes[-1]}, which is {nodes.max} of the largest machines"
        yield PlanProblem((*loc, "max"), message, remediation)
    elif nodes.max_gpus is not None:
        yield from _gpus((*loc, "maxGpus"), nodes.max_gpus, sizes)


def _gpus(loc: Loc, gpus: int, sizes: list[int]) -> Iterator[PlanProblem]:
    """Machines can fill the number, and it has room for each of them."""
    smallest, largest = sizes[0], sizes[-1]
    if gpus < largest:
        fewest = -(-largest // smallest) * smallest
        message = f"no machine with {largest} GPUs fits in {gpus}"
        yield PlanProblem(loc, message, f"use at least {fewest}, or smaller machines")
    elif gpus % smallest:
        below = gpus - gpus % smallest
        message = f"{gpus} GPUs are not a multiple of {smallest}, the number of the smallest machine"
        yield PlanProblem(loc, message, f"use {below} or {below + smallest}")


def _within(loc: Loc, pool: spec.Pool, sizes: list[int]) -> Iterator[PlanProblem]:
    """What else the file says of the pool's nodes fits within its bound."""
    nodes = pool.nodes
    if nodes.max_gpus is not None:
        most, field = nodes.max_gpus // sizes[0], "maxGpus"
    elif nodes.max is not None:
        most, field = nodes.max, "max"
    else:
        return
    if most and nodes.warm > most:
        message = f"{nodes.warm} warm nodes exceed the maximum of {most}"
        yield PlanProblem((*loc, "nodes", "warm"), message, f"lower warm or raise {field}")
    least = -(-sizes[-1] // sizes[0]) if nodes.max_gpus is not None else 1
    reserved = sum(reservation.count for reservation in nodes.reserved)
    if least <= most - reserved < 2 * least and 0 < nodes.spot_share < 1:
        if nodes.max_gpus is None:
            there = "one node" + (f" beside {reserved} reserved" if reserved else "")
            enough = f"max to {reserved + 2}"
        else:
            there = f"{nodes.max_gpus} GPUs and machines of {sizes[-1]}"
            enough = f"maxGpus to {2 * least * sizes[0]}"
        message = f"a spot share of {nodes.spot_share:g} can't be kept with {there}"
        yield PlanProblem((*loc, "nodes", "spotShare"), message, f"use 0 or 1, or raise {enough} or more")
    unavailable = pool.maintenance.max_unavailable
    if most and unavailable > most:
        message = f"{unavailable} nodes may be unavailable, but the pool has at most {most}"
        yield PlanProblem((*loc, "maintenance", "maxUnavailable"), message, f"use at most {most}")
