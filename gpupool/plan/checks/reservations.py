"""Reserved capacity: what a pool may have of it, and that nothing is counted twice."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.plan.checks.context import CheckContext, PlanProblem
from gpupool.spec import environment as spec
from gpupool.spec.yaml_source import Loc


def reserved(context: CheckContext) -> Iterator[PlanProblem]:
    """Each reservation is named one way and once, and its nodes are nodes of the pool."""
    owners: dict[str, str] = {}
    for index, pool in enumerate(context.environment.pools):
        loc: Loc = ("pools", index, "nodes", "reserved")
        for position, reservation in enumerate(pool.nodes.reserved):
            yield from _named((*loc, position), reservation)
            if reservation.id and (owner := owners.setdefault(reservation.id, pool.name)) != pool.name:
                message = (
                    f"reservation {reservation.id} is pool {owner}'s as well, and would be counted twice"
                )
                yield PlanProblem((*loc, position, "id"), message, "give it to one of them")
        yield from _bounded(context, loc, pool)


def _named(loc: Loc, reservation: spec.Reservation) -> Iterator[PlanProblem]:
    if (reservation.id is None) == (reservation.tags is None):
        how = "neither id nor tags says" if reservation.id is None else "id and tags both say"
        yield PlanProblem(loc, f"{how} which reservation it is", "use exactly one of id and tags")


def _bounded(context: CheckContext, loc: Loc, pool: spec.Pool) -> Iterator[PlanProblem]:
    nodes = pool.nodes
    count = sum(reservation.count for reservation in nodes.reserved)
    ids = [reservation.id for reservation in nodes.reserved if reservation.id]
    for name in sorted({name for name in ids if ids.count(name) > 1}):
        yield PlanProblem(loc, f"reservation {name} is listed twice", "list it once")
    if count and len(context.machine_sizes(pool)) > 1:
        message = "its machines have different numbers of GPUs, and a reservation is of one instance type"
        yield PlanProblem(loc, message, "give the reserved machines a pool of their own")
    elif nodes.max is not None and count > nodes.max:
        message = f"{count} nodes are reserved, and the pool has {nodes.max} at most"
        yield PlanProblem(loc, message, f"raise max to {count} or more: it counts the reserved nodes too")
