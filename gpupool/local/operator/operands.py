"""The operands of one node: MIG manager, device plugin, feature discovery. Pure: decides, writes nothing.

Each function takes what the operand can see and changes the node's state as that operand would. What
makes an operand act again is modelled as upstream has it: a label of the node that changed, or a new
roll-out of its DaemonSet; never an edited ConfigMap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpupool.local.operator import mig_config, names, plugin_config
from gpupool.local.operator.advertise import PluginFailure, advertise
from gpupool.local.operator.discovery import DiscoveryFailure, discover
from gpupool.local.operator.hardware import Hardware
from gpupool.local.operator.mig_config import Layout, NotPlaceable
from gpupool.local.operator.policy import Policy
from gpupool.local.operator.state import OperandMemory
from gpupool.local.operator.strict_yaml import ConfigError

ConfigMaps = Mapping[str, Mapping[str, str]]
"""Data of the ConfigMaps in the operator's namespace, by name."""


@dataclass(frozen=True)
class OperandView:
    """What the operands of a node can see."""

    hardware: Hardware
    labels: Mapping[str, str]
    policy: Policy
    config_maps: ConfigMaps
    fail: str
    """The operand that shall fail here, or empty."""


def mig_request(view: OperandView, state: OperandMemory) -> str | None:
    """The configuration that the MIG manager is to act on now; None while there is nothing new to it."""
    if not view.policy.mig_enabled or view.hardware.model.mig is None:
        return None
    name = view.labels.get(names.MIG_CONFIG_LABEL) or view.policy.mig_default
    if not name or state.mig_loaded == f"{view.policy.mig_generation}/{name}":
        return None
    return name


def apply_mig(view: OperandView, state: OperandMemory, name: str, busy: str | None) -> None:
    """Bring the GPUs into configuration `name`; the state says whether that failed, and why.

    `busy` names a pod that uses a GPU of the node. As upstream: a failure is not tried again until the
    label changes, and a layout that can't be placed leaves the GPUs in MIG mode and empty.
    """
    state.mig_loaded = f"{view.policy.mig_generation}/{name}"
    state.mig_error = _mig_failure(view, state, name, busy) or ""
    state.mig_state = "failed" if state.mig_error else "success"


def _mig_failure(view: OperandView, state: OperandMemory, name: str, busy: str | None) -> str | None:
    if view.fail == "mig":
        return f"MIG manager: made to fail by {names.FAIL_ANNOTATION}"
    try:
        wanted = mig_config.wanted(_mig_text(view), name, view.hardware)
    except ConfigError as error:
        return f"MIG manager: {error}"
    current = state.layouts or [None] * view.hardware.gpus
    if wanted != current:
        if busy:
            return f"MIG manager: GPUs are in use by another client ({busy}); drain the node first"
        state.plugin_loaded = ""  # the manager stops the plugin and starts it again afterwards
        try:
            for layout in wanted:
                mig_config.partition(view.hardware.model, layout) if layout else None
        except NotPlaceable as error:
            empty: list[Layout] = [{} if layout is not None else None for layout in wanted]
            state.layouts = empty
            return f"MIG manager: {error}"
        state.layouts = wanted
    return None


def _mig_text(view: OperandView) -> str | None:
    """The file that the MIG manager mounts; None where it uses generated configurations."""
    name = view.policy.mig_config_map
    if not name:
        return None
    data = view.config_maps.get(name)
    if data is None:
        raise ConfigError(f"there is no ConfigMap {name} in {view.policy.namespace}")
    if names.MIG_CONFIG_KEY not in data:
        raise ConfigError(f"ConfigMap {name} has no key {names.MIG_CONFIG_KEY}")
    return data[names.MIG_CONFIG_KEY]


def plugin_must_start(view: OperandView, state: OperandMemory) -> bool:
    """Whether the plugin is not running with what its DaemonSet and the node's label now say."""
    return state.plugin_loaded != _plugin_token(view)


def run_plugin(view: OperandView, state: OperandMemory) -> dict[str, int]:
    """The resources that the plugin advertises; (re)starts the plugin if it must.

    Raises PluginFailure when it can't run; it then advertises nothing and is started again on any event.
    """
    if plugin_must_start(view, state):
        state.plugin_loaded = ""
        state.plugin_config = _load(view)
        if view.fail == "plugin":
            raise PluginFailure(f"device plugin: made to fail by {names.FAIL_ANNOTATION}")
    # The operator sets an environment variable that beats the file.
    strategy = view.policy.plugin_strategy or state.plugin_config.mig_strategy or "none"
    try:
        result = advertise(view.hardware, _layouts(view, state), state.plugin_config, strategy)
    except PluginFailure as error:
        state.plugin_loaded = ""
        raise PluginFailure(f"device plugin: {error}") from error
    state.plugin_loaded = _plugin_token(view)
    return result


def run_discovery(view: OperandView, state: OperandMemory) -> dict[str, str]:
    """The labels of feature discovery, which has the plugin's configuration and runs where that fails too.

    Raises DiscoveryFailure when it can't, or when the configuration can't be had.
    """
    try:
        config = _load(view) if plugin_must_start(view, state) else state.plugin_config
    except PluginFailure as error:
        raise DiscoveryFailure(str(error)) from error
    strategy = view.policy.mig_strategy or config.mig_strategy or "none"
    return discover(view.hardware, _layouts(view, state), config, strategy, view.policy.driver)


def _layouts(view: OperandView, state: OperandMemory) -> list[Layout]:
    return state.layouts or [None] * view.hardware.gpus


def _plugin_token(view: OperandView) -> str:
    return f"{view.policy.plugin_generation}/{_plugin_key(view)}"


def _plugin_key(view: OperandView) -> str:
    """The node's label wins over the default of the policy."""
    return view.labels.get(names.PLUGIN_CONFIG_LABEL) or view.policy.plugin_default


def _load(view: OperandView) -> plugin_config.PluginConfig:
    """Read the configuration as a plugin that has just been started."""
    name, key = view.policy.plugin_config_map, _plugin_key(view)
    if not name:
        return plugin_config.PluginConfig()
    data = view.config_maps.get(name)
    if data is None:
        raise PluginFailure(f"device plugin: there is no ConfigMap {name} in {view.policy.namespace}")
    if not key:
        return plugin_config.PluginConfig()
    if key not in data:
        known = ", ".join(sorted(data)) or "none"
        raise PluginFailure(f"device plugin: ConfigMap {name} has no configuration {key!r}; it has {known}")
    try:
        return plugin_config.parse(data[key])
    except ConfigError as error:
        raise PluginFailure(f"device plugin: ConfigMap {name}, {key}: {error}") from error
