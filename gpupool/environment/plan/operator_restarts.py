"""Which operands of the GPU Operator restart when its settings change, and what its driver does to nodes.

The facts are in `operator_restarts.yaml`; this is their only reader. It compares two sets of settings (Helm
values, or the `spec` of a ClusterPolicy) of one release; what another release changes by itself is not here.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from gpupool.environment.plan.operator_releases import version_key
from gpupool.environment.spec.yaml_source import value_at

DriverChange = Literal["surroundings", "settings"]
DRIVER, DEVICE_PLUGIN, MPS_DAEMON = "driver", "device plugin", "MPS control daemon"
"""Operands of the table that others ask for. The driver is not restarted as the others are."""


@dataclass(frozen=True, slots=True)
class Restart:
    """What restarts because of settings that concern the same operands."""

    paths: tuple[tuple[str, ...], ...]
    """The settings that differ."""
    operands: tuple[str, ...] | None
    """None where the table does not have the settings."""
    driver: DriverChange | None = None
    note: str = ""

    @property
    def reason(self) -> str:
        names = ", ".join(".".join(path) for path in self.paths)
        return f"{names} {'changes' if len(self.paths) == 1 else 'change'}"

    @property
    def others(self) -> tuple[str, ...]:
        """The operands but for the driver."""
        return tuple(name for name in self.operands or () if name != DRIVER)


@dataclass(frozen=True, slots=True)
class DriverRestart:
    """What the operator's upgrade controller does, on one node after the other."""

    pods: Literal["kept", "evicted"]
    text: str
    at_once: int


def between(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Restart, ...]:
    """What restarts where the settings `old` become `new`, in the table's order."""
    by_row: dict[int, list[tuple[str, ...]]] = {}
    rows = _table()["settings"]
    for path in _differing(old, new, ()):
        known = [index for index, row in enumerate(rows) if path[: len(row["path"])] == tuple(row["path"])]
        row = max(known, key=lambda index: len(rows[index]["path"]), default=len(rows))
        by_row.setdefault(row, []).append(path)
    return tuple(_restart(index, tuple(paths)) for index, paths in sorted(by_row.items()))


def of_driver(change: DriverChange, releases: tuple[str, str], settings: Mapping[str, Any]) -> DriverRestart:
    """How a change of the driver's pods reaches the nodes. `releases`: before and after."""
    drivers = _table()["drivers"]
    policy = ("driver", "upgradePolicy")
    at_once = value_at(settings, (*policy, "maxParallelUpgrades"))
    at_once = at_once if isinstance(at_once, int) and at_once > 0 else 1
    if value_at(settings, (*policy, "autoUpgrade")) is False:
        kind = "by-hand"
    elif change == "settings":
        kind = "upgrade"
    else:
        here = min(map(version_key, releases)) >= version_key(drivers["in-place"]["since"])
        kind = "in-place" if here else "taken-for-upgrade"
    return DriverRestart(drivers[kind]["pods"], drivers[kind]["text"].format(at_once=at_once), at_once)


def _restart(index: int, paths: tuple[tuple[str, ...], ...]) -> Restart:
    rows = _table()["settings"]
    if index == len(rows):
        return Restart(paths, None)
    return Restart(
        paths, tuple(rows[index]["restarts"]), rows[index].get("driver"), rows[index].get("note", "")
    )


def _differing(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths of mappings at which the two differ."""
    was, now = ({} if value is None else value for value in (old, new))
    if was == now:
        return
    if not (isinstance(was, Mapping) and isinstance(now, Mapping)):
        yield path
        return
    for key in [*was, *(key for key in now if key not in was)]:
        yield from _differing(was.get(key), now.get(key), (*path, key))


@functools.cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "operator_restarts.yaml").read_bytes())
    return table
