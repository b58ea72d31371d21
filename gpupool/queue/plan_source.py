"""The Plan that the queue works by at present: read again when the environment file changes.

A file that is wrong is reported once and changes nothing: the queue goes on by the Plan it has. It must not
fill in anything that the file does not say.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from gpupool.findings import GpupoolError
from gpupool.plan.model import Plan
from gpupool.plan.resolve import resolve
from gpupool.plan.tenants import Tenant
from gpupool.queue.domain.supply import Supply, supply_of
from gpupool.spec.load import load

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Current:
    """A Plan, and what is derived from it once."""

    plan: Plan
    supply: Supply
    hash: str
    """Of the whole Plan, 16 hexadecimal digits: what decisions name."""
    tenants: Mapping[str, Tenant]
    """By name, and by id."""


def current(plan: Plan) -> Current:
    """The Plan with its supply and hash."""
    text = json.dumps([plan.as_dict(), plan.queue.as_dict()], sort_keys=True, default=str)
    tenants = {tenant.id: tenant for tenant in plan.tenants if tenant.id}
    tenants |= {tenant.name: tenant for tenant in plan.tenants}
    return Current(plan, supply_of(plan), hashlib.sha256(text.encode()).hexdigest()[:16], tenants)


class PlanSource:
    """The present Plan of one environment file. Raises SpecError where the first reading finds it wrong."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = self._mark()
        self.current = current(resolve(load(path)))

    def present(self) -> Current:
        return self.current

    def plan(self) -> Plan:
        return self.current.plan

    def supply(self) -> tuple[Supply, str]:
        return self.current.supply, self.current.hash

    def targets(self) -> tuple[str, ...]:
        return self.current.plan.queue.targets

    def refresh(self) -> None:
        """Read the file again where it has changed."""
        mark = self._mark()
        if mark == self._seen:
            return
        self._seen = mark
        try:
            found = current(resolve(load(self.path)))
        except (GpupoolError, OSError) as error:
            log.error("plan.refused", file=str(self.path), error=str(error), kept=self.current.hash)
            return
        if found.hash != self.current.hash:
            log.info("plan.changed", file=str(self.path), plan=found.hash)
        self.current = found

    def _mark(self) -> tuple[int, int, int] | None:
        try:
            stat = self.path.stat()
        except OSError:
            return None
        return (stat.st_mtime_ns, stat.st_size, stat.st_ino)
