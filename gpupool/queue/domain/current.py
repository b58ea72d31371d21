"""A Plan as the queue works by it: with its supply, its tenants by name and by id, and the hash that
decisions name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.tenants import Tenant
from gpupool.queue.domain.supply import Supply, supply_of


@dataclass(frozen=True, slots=True)
class Current:
    """A Plan, and what is derived from it once."""

    plan: Plan
    supply: Supply
    hash: str
    """Of the whole Plan, 16 hexadecimal digits: what decisions name. Where its files lie is no part of it."""
    tenants: Mapping[str, Tenant]
    """By name, and by id."""


def current(plan: Plan) -> Current:
    """The Plan with its supply and hash."""
    text = json.dumps(asdict(plan), sort_keys=True, default=_plain)
    tenants = {tenant.id: tenant for tenant in plan.tenants if tenant.id}
    tenants |= {tenant.name: tenant for tenant in plan.tenants}
    return Current(plan, supply_of(plan), hashlib.sha256(text.encode()).hexdigest()[:16], tenants)


def _plain(value: Any) -> Any:
    """What is in a Plan beside values of JSON, alike in every process."""
    if isinstance(value, frozenset | set):
        return sorted(map(str, value))
    return value.name if isinstance(value, PurePath) else str(value)
