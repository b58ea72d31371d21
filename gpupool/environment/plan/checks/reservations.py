"""Reserved capacity: what a pool may have of it, and that nothing is counted twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpupool.environment.plan.checks.context import CheckContext, PlanProblem
from gpupool.environment.spec import environment as spec
from gpupool.environment.spec.yaml_source import Loc


def reserved(context: CheckContext) -> Iterator[PlanProblem]:
    """Each reservation is named one way and once, and its nodes are nodes of the pool."""
    listed: list[tuple[spec.Pool, spec.Reservation]] = []
    for index, pool in enumerate(context.environment.pools):
        loc: Loc = ("pools", index, "nodes", "reserved")
        for position, reservation in enumerate(pool.nodes.reserved):
            yield from _named((*loc, position), reservation)
            for other, earlier in listed:
                if _same(pool, reservation, other, earlier):
                    yield _twice((*loc, position), pool, reservation, other)
                    break
            listed.append((pool, reservation))
        yield from _bounded(context, loc, pool)
        yield from _stopped(("pools", index, "nodes"), pool.nodes)


def _stopped(loc: Loc, nodes: spec.Nodes) -> Iterator[PlanProblem]:
    """When reserved nodes are stopped is said of some."""
    at = (*loc, "reservedConsolidateAfter")
    if "reserved_consolidate_after" in nodes.model_fields_set and not nodes.reserved:
        message = "no node of the pool is reserved"
        yield PlanProblem(
            at, message, "remove it, or list reservations in reserved", (at, (*loc, "reserved"))
        )


def _named(loc: Loc, reservation: spec.Reservation) -> Iterator[PlanProblem]:
    if (reservation.id is None) == (reservation.tags is None):
        how = "neither id nor tags" if reservation.id is None else "both id and tags"
        yield PlanProblem(loc, f"the reservation has {how}", "use exactly one of id and tags")


def _same(
    pool: spec.Pool, reservation: spec.Reservation, other: spec.Pool, earlier: spec.Reservation
) -> bool:
    """Whether both find the same reservations. Tags find those that have more of them as well, and Karpenter
    takes of what they find what is for the pool's own instance types."""
    if reservation.id or earlier.id:
        return reservation.id == earlier.id
    if not set(pool.nodes.instance_types) & set(other.nodes.instance_types):
        return False
    tags, earlier_tags = reservation.tags or {}, earlier.tags or {}
    return _finds(tags, earlier_tags) or _finds(earlier_tags, tags)


def _finds(tags: Mapping[str, str], more: Mapping[str, str]) -> bool:
    """Whether what has `more` has `tags`, of which * stands for any value."""
    return all(key in more and value in ("*", more[key]) for key, value in tags.items())


def _twice(loc: Loc, pool: spec.Pool, reservation: spec.Reservation, other: spec.Pool) -> PlanProblem:
    if reservation.id:
        what, field = f"reservation {reservation.id}", "id"
    else:
        what, field = "what these tags find", "tags"
    if pool is other:
        message = f"{what} is listed twice"
        remediation = (
            "list it once" if reservation.id else "list it once, or add a tag that only some of it has"
        )
    else:
        message = f"{what} is also in pool {other.name} and would be counted twice"
        remediation = "keep it in one of them" if reservation.id else "add tags that distinguish them"
    return PlanProblem((*loc, field), message, remediation)


def _bounded(context: CheckContext, loc: Loc, pool: spec.Pool) -> Iterator[PlanProblem]:
    nodes = pool.nodes
    count = sum(reservation.count for reservation in nodes.reserved)
    if count and len(context.machine_sizes(pool)) > 1:
        message = "its machines have different numbers of GPUs, but a reservation is for one instance type"
        yield PlanProblem(loc, message, "use a separate pool for the reserved machines")
    elif nodes.max is not None and count > nodes.max:
        message = f"{count} nodes are reserved, but the pool has at most {nodes.max}"
        yield PlanProblem(loc, message, f"raise max to {count} or more: it includes the reserved nodes")
