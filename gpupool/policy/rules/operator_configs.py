"""The GPU Operator's settings: which configurations it reads, and which nodes it tolerates.

Read from the ClusterPolicy or the Helm values, whichever the bundle has, never from the Plan: the point is to
find out whether they and the nodes' labels and taints fit together. Facts: gpu-operator v26.7.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.policy.rules.bundle import BundleObject, JudgedRelease, ObjectSet
from gpupool.policy.rules.fields import at, items, mapping, parsed, text
from gpupool.policy.rules.rule import RuleViolation

PLUGIN_LABEL = "nvidia.com/device-plugin.config"
MIG_LABEL = "nvidia.com/mig.config"
_MIG_KEY = "config.yaml"
_FIELDS_KEY = "dcgm-metrics.csv"
_CHART = "gpu-operator"


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """One place that steers the operator."""

    source: BundleObject | JudgedRelease
    prefix: str
    """Path of `settings` in the source: `spec` or `values`."""
    settings: Mapping[str, Any]
    """Contents of the ClusterPolicy's spec, which the chart's values are laid out as."""


def operators(bundle: ObjectSet) -> list[Operator]:
    """Every ClusterPolicy and every release of the operator's chart."""
    policies = [
        Operator(item, "spec", mapping(item.body, "spec")) for item in bundle.of_kind("ClusterPolicy")
    ]
    charts = [release for release in bundle.releases if release.chart.rpartition("/")[2] == _CHART]
    return policies + [Operator(release, "values", release.values) for release in charts]


def plugin_settings(bundle: ObjectSet) -> dict[str, Mapping[str, Any]]:
    """Config name -> device-plugin configuration, of all that some operator reads and that can be parsed."""
    found = {
        key: parsed(document)
        for operator in operators(bundle)
        for key, document in (_plugin_data(bundle, operator) or {}).items()
    }
    return {key: value for key, value in found.items() if value is not None}


def mig_layouts(bundle: ObjectSet) -> dict[str, list[Any]]:
    """Config name -> entries of the mig-parted configuration, of all that some operator reads."""
    found: dict[str, list[Any]] = {}
    for operator in operators(bundle):
        found.update(_layouts(_mig_config_map(bundle, operator)) or {})
    return found


def _named(operator: Operator, operand: str) -> str:
    return text(operator.settings, operand, "config", "name")


def _config_map(bundle: ObjectSet, operator: Operator, operand: str) -> BundleObject | None:
    """The ConfigMap that an operand is pointed at. A ClusterPolicy has no namespace, so there any will do."""
    name, where = _named(operator, operand), getattr(operator.source, "namespace", "")
    for item in bundle.of_kind("ConfigMap"):
        if item.name == name and (not where or item.namespace == where):
            return item
    return None


def _mig_config_map(bundle: ObjectSet, operator: Operator) -> BundleObject | None:
    return _config_map(bundle, operator, "migManager")


def _plugin_data(bundle: ObjectSet, operator: Operator) -> Mapping[str, Any] | None:
    """None where the ConfigMap is not in the bundle. The chart can make it from its values (`create`)."""
    if at(operator.settings, "devicePlugin", "config", "create") is True:
        return mapping(operator.settings, "devicePlugin", "config", "data")
    bundle_object = _config_map(bundle, operator, "devicePlugin")
    return mapping(bundle_object.body, "data") if bundle_object else None


def _layouts(config_map: BundleObject | None) -> dict[str, list[Any]] | None:
    document = parsed(at(config_map.body, "data", _MIG_KEY)) if config_map else None
    if document is None:
        return None
    layouts = at(document, "mig-configs")
    return {str(name): items(layouts, name) for name in layouts} if isinstance(layouts, dict) else None


def plugin_configs(bundle: ObjectSet) -> Iterator[RuleViolation]:
    """The ConfigMap is there, its default and every nodes' key are in it, and each key can be read."""
    known = set[str]()
    seen = [operator for operator in operators(bundle) if _named(operator, "devicePlugin")]
    for operator in seen:
        name, data = _named(operator, "devicePlugin"), _plugin_data(bundle, operator)
        path = f"{operator.prefix}.devicePlugin.config"
        if data is None:
            yield RuleViolation(
                f"ConfigMap {name!r} of the device plugin does not exist", operator.source, f"{path}.name"
            )
            continue
        known |= data.keys()
        default = text(operator.settings, "devicePlugin", "config", "default")
        if default and default not in data:
            message = f"default {default!r} is not a key of ConfigMap {name!r}"
            yield RuleViolation(message, operator.source, f"{path}.default", {"keys": sorted(data)})
        for key, document in data.items():
            if parsed(document) is None:
                source = _config_map(bundle, operator, "devicePlugin") or operator.source
                yield RuleViolation(
                    "the device plugin's configuration is not a YAML mapping", source, f"data[{key}]"
                )
    reads = ", ".join(_named(operator, "devicePlugin") for operator in seen)
    yield from _unknown(bundle, PLUGIN_LABEL, known, reads, "device plugin")


def exporter_fields(bundle: ObjectSet) -> Iterator[RuleViolation]:
    """The ConfigMap with the exporter's fields is there, under the key that the operator mounts: the exporter
    does not start without it."""
    for operator in operators(bundle):
        name, path = _named(operator, "dcgmExporter"), f"{operator.prefix}.dcgmExporter.config.name"
        if not name or at(operator.settings, "dcgmExporter", "config", "create") is True:
            continue
        bundle_object = _config_map(bundle, operator, "dcgmExporter")
        if bundle_object is None:
            yield RuleViolation(
                f"ConfigMap {name!r} of the DCGM exporter does not exist", operator.source, path
            )
        elif _FIELDS_KEY not in mapping(bundle_object.body, "data"):
            yield RuleViolation(
                f"key {_FIELDS_KEY}, which the DCGM exporter reads, is missing", bundle_object, "data"
            )


def mig_configs(bundle: ObjectSet) -> Iterator[RuleViolation]:
    """The ConfigMap is there, and every layout that a node is labelled with is in it."""
    known = set[str]()
    seen = [operator for operator in operators(bundle) if _named(operator, "migManager")]
    for operator in seen:
        name, path = _named(operator, "migManager"), f"{operator.prefix}.migManager.config"
        config_map = _mig_config_map(bundle, operator)
        if config_map is None:
            yield RuleViolation(
                f"ConfigMap {name!r} of the MIG manager does not exist", operator.source, f"{path}.name"
            )
            continue
        layouts = _layouts(config_map)
        if layouts is None:
            message = f"key {_MIG_KEY} has no mapping `mig-configs`"
            yield RuleViolation(message, config_map, f"data[{_MIG_KEY}]")
            continue
        known |= layouts.keys()
        default = text(operator.settings, "migManager", "config", "default")
        if default and default not in layouts:
            message = f"default {default!r} is not a layout of ConfigMap {name!r}"
            yield RuleViolation(message, operator.source, f"{path}.default", {"layouts": sorted(layouts)})
    reads = ", ".join(_named(operator, "migManager") for operator in seen)
    # The operator's own list, which is not in the bundle, names its layouts so.
    for found in _unknown(bundle, MIG_LABEL, known, reads, "MIG manager"):
        if reads or not str(found.values["value"]).startswith("all-"):
            yield found


def _unknown(
    bundle: ObjectSet, label: str, known: set[str], reads: str, operand: str
) -> Iterator[RuleViolation]:
    """Nodes whose label names no configuration. Without any operator in the bundle this is unknown, unless
    the bundle is an environment's."""
    if not operators(bundle) and bundle.plan is None:
        return
    for nodes in bundle.nodes:
        value = nodes.labels.get(label)
        if value is not None and value not in known:
            what = f"which ConfigMap {reads} lacks" if reads else f"but the {operand} uses no ConfigMap"
            message = f"nodes are labelled {label}={value}, {what}"
            values = {"value": value, "known": sorted(known)}
            yield RuleViolation(message, nodes.source, f"{nodes.path}[{label}]", values)
