"""What `up` restarts on the GPU nodes by changing the operator's settings, and whether it cordons them.

Compares the settings that the stack's state has with those of the file; asks no cluster. Which setting
restarts what is in `gpupool.environment.plan.operator_restarts`, as for `gpupool report`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpupool.environment.plan import operator_restarts
from gpupool.environment.plan.operator_restarts import Restart
from gpupool.environment.spec.yaml_source import value_at
from gpupool.generators.manifest import Bundle, HelmRelease
from gpupool.infra.recovery import name_of
from gpupool.live.objects.resource_values import logical_name


def notes(deployment: Mapping[str, Any], bundle: Bundle) -> Iterator[str]:
    """A line for what happens to the driver, and one for the other operands."""
    rows = {name_of(row["urn"]): row.get("inputs") or {} for row in deployment.get("resources", ())}
    for release in bundle.releases:
        old = rows.get(f"Release/{release.name}")
        if release.chart == "gpu-operator" and old:
            yield from _of_release(old, release)
    for manifest in bundle:
        old = rows.get(logical_name(manifest)) if manifest.kind == "ClusterPolicy" else None
        if old:
            yield from _of_operands(operator_restarts.between(old["spec"], manifest.body["spec"]))


def _of_release(old: Mapping[str, Any], new: HelmRelease) -> Iterator[str]:
    if old["version"] != new.version:
        yield (
            f"`up` changes the GPU Operator from {old['version']} to {new.version}: all its pods restart "
            "on every GPU node; see gpupool report for the driver"
        )
        return
    changed = operator_restarts.between(old.get("values") or {}, new.values)
    driver = [row for row in changed if row.driver]
    if driver and value_at(new.values, ("driver", "enabled")) is not False:
        kinds = {row.driver for row in driver}
        effect = operator_restarts.of_driver(
            "settings" if "settings" in kinds else "surroundings", (old["version"], new.version), new.values
        )
        yield f"`up` restarts the operator's driver on every GPU node ({_reasons(driver)}): {effect.text}"
    yield from _of_operands(changed)


def _of_operands(changed: Iterable[Restart]) -> Iterator[str]:
    rows = [row for row in changed if row.others]
    if rows:
        operands = ", ".join(dict.fromkeys(name for row in rows for name in row.others))
        yield (
            f"`up` restarts the operator's {operands} on every GPU node, one node at a time "
            f"({_reasons(rows)})"
        )


def _reasons(rows: Iterable[Restart]) -> str:
    return "; ".join(row.reason for row in rows)
