"""The device plugin's configurations: one ConfigMap with a key per pool, under a name made of its content.

The operator does not watch the ConfigMap that it is pointed at: an edit in place never reaches a node.
A new name does, since it changes the daemonset, which restarts the plugin and replaces no node.
Schema: k8s-device-plugin v0.20.0, api/config/v1; misspelt keys are silently ignored there, so no user text
is copied into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.environment.plan import mig_strategy
from gpupool.environment.plan.model import Plan, Pool
from gpupool.environment.sharing import GPU_RESOURCE
from gpupool.environment.sharing.replicated import Replicated
from gpupool.generators.emit import yaml_text
from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import content_name, manifest_of

DEFAULT_KEY = "gpupool.default"
"""For nodes without the label: no sharing. No pool name has a dot, so none can take it."""


def generate(plan: Plan) -> Iterator[Manifest]:
    namespace = plan.gpu_operator.namespace
    yield manifest_of(plan, "ConfigMap", config_map_name(plan), namespace, data=_data(plan))


def config_map_name(plan: Plan) -> str:
    """Name of the ConfigMap that holds the pools' configurations."""
    return content_name("gpupool-device-plugin", _data(plan))


def _data(plan: Plan) -> dict[str, str]:
    default = {DEFAULT_KEY: yaml_text({"version": "v1", "flags": {"migStrategy": "none"}})}
    return default | {pool.name: yaml_text(_settings(pool)) for pool in plan.pools}


def _settings(pool: Pool) -> dict[str, Any]:
    settings = {"version": "v1", "flags": {"migStrategy": mig_strategy.of_pool(pool)}}
    if not isinstance(pool.sharing, Replicated):
        return settings
    sharing = {
        "renameByDefault": pool.sharing.rename_by_default,
        # More than one slice per container buys nothing: both may be the same GPU (plugin README).
        "failRequestsGreaterThanOne": True,
        "resources": [{"name": GPU_RESOURCE, "replicas": pool.sharing.replicas}],
    }
    return {**settings, "sharing": {pool.sharing.plugin_key: sharing}}
