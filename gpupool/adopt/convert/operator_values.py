"""Settings of the GPU Operator -> `gpuOperator` and `monitoring`: Helm values, and ClusterPolicies.

What gpupool derives is compared with what it will derive (`apply`, once the pools are known); everything
else of Helm values goes to `gpuOperator.values` as it is. Chart gpu-operator v26.7.0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gpupool.adopt.convert import node_labels, operator_pins
from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.device_plugin import NOT_MIXED, NamedPluginConfig
from gpupool.adopt.convert.draft import Draft
from gpupool.adopt.convert.generated import generated_spec
from gpupool.adopt.convert.mig_parted import MigConfig
from gpupool.adopt.convert.sharing import Sharings
from gpupool.adopt.convert.spec_words import fits
from gpupool.adopt.convert.values import is_clear
from gpupool.environment.plan.helm_values import merged
from gpupool.environment.plan.mig_strategy import OWN_START
from gpupool.environment.plan.owned_settings import given_variables, owned_values, undoing
from gpupool.environment.sharing import SHARED_RESOURCE
from gpupool.environment.spec.environment import CLUSTER_POLICY
from gpupool.environment.spec.yaml_source import Loc
from gpupool.generators.monitoring.exporter import FIELDS_MAP

_ALWAYS_ON: tuple[tuple[str, ...], ...] = (
    ("devicePlugin", "enabled"),
    ("nfd", "enabled"),
    ("gfd", "enabled"),
    ("clusterPolicy", "deployCR"),
    ("migManager", "enabled"),
)
_CREATE_CONFIG: tuple[tuple[str, ...], ...] = (
    ("devicePlugin", "config", "create"),
    ("migManager", "config", "create"),
)
"""Whether the chart makes a ConfigMap of its own: gpupool makes its own in either case."""
_TOLERATIONS: tuple[tuple[str, ...], ...] = (
    ("daemonsets", "tolerations"),
    ("node-feature-discovery", "worker", "tolerations"),
)
_CONFIGURATIONS: tuple[Loc, ...] = (("devicePlugin", "config"), ("migManager", "config"), ("mig",))
_CHART_TOLERATIONS = (
    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"},
)
Origin = Literal["values", "policy", "chart", "foreign"]
"""values: Helm values. The others are ClusterPolicies: gpupool's own, made by the chart that gpupool
installs, or of an operator that somebody else runs."""
_MILLISECONDS = re.compile(r"[1-9][0-9]{0,6}000")
"""Of whole seconds."""
_STAYS = "it stays in the operator's settings; gpupool only adds the pools' configurations"
SHIPPED_MIG_MAP = "default-mig-parted-config"
"""The layouts that the operator brings, all of which it knows by name."""
CHART = "gpu-operator"
_CHART_LABEL = "helm.sh/chart"


@dataclass(slots=True)
class OperatorSettings:
    """One set of Helm values, or one ClusterPolicy."""

    part: Part
    """Where the values are: the document, its gpu-operator section, or `spec`."""
    origin: Origin
    version: str = ""
    """Release in the chart's label, empty where there is none."""


def read(part: Part, origin: Origin) -> OperatorSettings:
    """The settings at `part`, a document."""
    policy = origin != "values"
    operator_settings = OperatorSettings(part.at("spec" if policy else "gpu-operator") or part, origin)
    operator_settings.version = part.document.chart_version if part.document.chart == CHART else ""
    if policy:
        part.named()
        operator_settings.version = (part.text("metadata", "labels", _CHART_LABEL) or "").removeprefix(
            "gpu-operator-"
        )
    return operator_settings


def choose_configs(settings: OperatorSettings, sharings: Sharings) -> None:
    """Tell `sharings` which configurations the operator uses for nodes whose labels name none."""
    part = settings.part
    sharings.plugin_map = part.word("devicePlugin", "config", "name") or sharings.plugin_map
    sharings.mig_map = part.word("migManager", "config", "name") or sharings.mig_map
    for operand, configs in (("devicePlugin", sharings.plugins), ("migManager", sharings.layouts)):
        _account_for_map(part.at(operand, "config", "name"), part, configs)
    default = part.at("devicePlugin", "config", "default")
    if isinstance(default.value, str):
        known = any(config.name == default.value for config in sharings.plugins)
        if known or not default.value:
            default.used()
            sharings.choose(default.value, f"the operator's chart ({part.document.file})")
        else:
            default.wrong("the input has no such device-plugin configuration", "convert its ConfigMap")


def _account_for_map(name: Part, values: Part, configs: Sequence[NamedPluginConfig | MigConfig]) -> None:
    """Mark the name of a ConfigMap as used if its configurations were read, and list it otherwise."""
    read = any(
        config.config_map == name.value
        or (not config.config_map and config.part.document.within is values.document)
        for config in configs
    )
    if read or name.value in ("", SHIPPED_MIG_MAP):
        name.used()
    else:
        name.left("the input has no ConfigMap of that name with configurations", "convert it too")


def apply(settings: OperatorSettings, draft: Draft) -> None:
    """Put what the settings say on `draft`, whose pools are complete; mark what gpupool derives."""
    part = settings.part
    if settings.version and fits("version", settings.version):
        draft.operator["version"] = settings.version
    if settings.origin == "foreign":
        _apply_foreign_policy(part, draft)
    elif settings.origin == "chart":
        _driver(part, draft, chart=True)
        _monitoring(part, draft)
    else:
        _apply_own(settings, draft)
    if part.document.source is None:
        part.rest_of_cluster()  # defaults that the server has filled in
    elif settings.origin in ("foreign", "chart"):
        part.rest_left(_STAYS)


def _apply_foreign_policy(part: Part, draft: Draft) -> None:
    """Of a ClusterPolicy that stays, only what would undo the pools' sharing needs a change."""
    draft.operator["install"] = False
    if part.document.name != CLUSTER_POLICY:
        draft.operator["clusterPolicy"] = part.document.name
    for setting in undoing(part.value, bool(draft.partitioned)):
        for loc in setting.locs:
            part.at(*loc).wrong(f"gpupool derives it: {setting.why}", "remove it from the ClusterPolicy")


def _apply_own(settings: OperatorSettings, draft: Draft) -> None:
    """Helm values, and the ClusterPolicy that gpupool itself has made of them: what it does not derive is
    carried over to `gpuOperator.values`."""
    part = settings.part
    _derived(part, draft)
    if settings.origin == "policy":
        part.derives_as(generated_spec("ClusterPolicy", "local"))
    _driver(part, draft, chart=False)
    _monitoring(part, draft)
    if settings.origin == "values":
        operator_pins.drop(part, draft)
    for owned in owned_values():
        value = part.at(*owned.path)
        if owned.left and is_clear(value.value) and owned.undoes(part.value, bool(draft.partitioned)):
            value.wrong(f"it conflicts with the pools: {owned.why}", "remove it")
    if values := part.carry_over(but=_not_carried_over(settings)):
        draft.operator["values"] = merged(draft.operator.get("values", {}), values)


def _derived(part: Part, draft: Draft) -> None:
    """Values that gpupool derives."""
    for path in _ALWAYS_ON:
        if not part.mark_derived_if(True, *path) and path != ("migManager", "enabled"):
            part.at(*path).left("gpupool needs it enabled", "remove it")
    for path in _CREATE_CONFIG:
        part.mark_derived_if(True, *path)
        part.mark_derived_if(False, *path)
    part.mark_derived_if(False, "gpuCluster", "deployCR")
    layout = part.at("migManager", "config", "default")
    if layout.value in ("", "all-disabled"):
        layout.derived()
    else:
        why = "the operator's CRD allows only all-disabled or an empty string"
        layout.wrong(
            why, "the label nvidia.com/mig.config selects the layout, and gpupool sets it for each pool"
        )
    _strategy(part, draft)
    for path in _TOLERATIONS:
        node_labels.tolerations(part.at(*path), draft.pools, _CHART_TOLERATIONS)
    for setting in given_variables(part.value, draft.platform):
        for loc in setting.locs:
            if setting.same:
                part.at(*loc).derived()
            else:
                part.at(*loc).left(f"gpupool derives it: {setting.why}")


def _strategy(part: Part, draft: Draft) -> None:
    start = part.at("devicePlugin", "args")
    if start.value in ([], [OWN_START]):
        start.derived()
    elif start.there:
        start.left("a shell runs them instead of the plugin's start script")
    strategy = part.at("mig", "strategy")
    # Single is the chart's default.
    fine = ("", "mixed") if draft.partitioned else ("", "mixed", "none", "single")
    if strategy.value in fine:
        strategy.derived()
    else:
        strategy.left(*NOT_MIXED)


def _driver(part: Part, draft: Draft, chart: bool) -> None:
    """The driver's settings. `chart`: the chart has written its own defaults in addition to the given values,
    so that the release's own driver version is no choice."""
    driver: dict[str, Any] = {}
    enabled = part.truth("driver", "enabled")
    if enabled is False:
        driver["enabled"] = False
    version = part.at("driver", "version")
    if fits("version", version.value):
        version.used()
        if not chart or version.value != operator_pins.driver(operator_pins.chosen(draft)):
            driver["version"] = version.value
    if driver:
        draft.operator["driver"] = driver


def _monitoring(part: Part, draft: Draft) -> None:
    """What the DCGM exporter reads, and how often; what gpupool sets for shared GPUs it sets again."""
    wanted = part.truth("dcgmExporter", "serviceMonitor", "enabled")
    if wanted:
        draft.monitoring["prometheusOperator"] = True
    interval = part.at("dcgmExporter", "serviceMonitor", "interval")
    if fits("duration", interval.value):
        interval.used()
        if interval.value != "15s":
            draft.monitoring["dcgmInterval"] = interval.value
    name = part.at("dcgmExporter", "config", "name")
    if isinstance(name.value, str) and name.value.startswith(f"{FIELDS_MAP}-"):
        name.derived()
        part.mark_derived_if(False, "dcgmExporter", "config", "create")
    variables = part.at("dcgmExporter", "env").value
    for index, row in enumerate(variables if isinstance(variables, list) else ()):
        variable = part.at("dcgmExporter", "env", index)
        match row:
            case {"name": "DCGM_EXPORTER_INTERVAL", "value": str(value)} if _MILLISECONDS.fullmatch(value):
                variable.used()
                if value != "15000":
                    draft.monitoring["dcgmInterval"] = f"{int(value) // 1000}s"
            case {"name": "KUBERNETES_VIRTUAL_GPUS", "value": "true"} if draft.shared:
                variable.derived()
            case {"name": "NVIDIA_RESOURCE_NAMES", "value": str(value)} if value == SHARED_RESOURCE and any(
                pool.sharing.get("renameByDefault") for pool in draft.pools
            ):
                variable.derived()
    if draft.shared:
        part.mark_derived_if(True, "dcgmExporter", "hostPID")


def _not_carried_over(settings: OperatorSettings) -> list[Loc]:
    """Fields that do not go to `gpuOperator.values`: gpupool sets them, or a server has filled them in."""
    if settings.origin == "policy":
        carried = {"driver", "toolkit", "dcgmExporter", "migManager"}
        return [*_CONFIGURATIONS, *((key,) for key, _ in settings.part.items() if key not in carried)]
    return [*_CONFIGURATIONS, *_TOLERATIONS, ("apiVersion",), ("kind",), ("metadata",)]
