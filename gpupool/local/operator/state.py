"""What the operands of one node have loaded, kept in an annotation of the node.

It stands for the memory of processes that run on the node, so it survives a restart of the simulation:
an edited ConfigMap must stay without effect until the operand itself is restarted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gpupool.local.operator import names
from gpupool.local.operator.mig_config import Layout
from gpupool.local.operator.plugin_config import PluginConfig


@dataclass
class OperandMemory:
    """The memory of the operands on one node; everything empty on a node they have not run on."""

    plugin_loaded: str = ""
    """Generation of the plugin and key that it was started with; empty while it does not run."""
    plugin_config: PluginConfig = field(default_factory=PluginConfig)
    """What the plugin was configured with."""
    mig_loaded: str = ""
    """Generation of the MIG manager and name that it last acted on."""
    mig_state: str = ""
    """What the label nvidia.com/mig.config.state says."""
    mig_error: str = ""
    """Why it says `failed`."""
    layouts: list[Layout] = field(default_factory=list)
    """Of each GPU."""
    labels: list[str] = field(default_factory=list)
    """Keys of the labels that feature discovery wrote, which alone it may remove."""

    def as_text(self) -> str:
        """The annotation's value; equal states give equal texts."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


def read(node: Mapping[str, Any]) -> OperandMemory:
    """The state in the node's annotation; a damaged one counts as a node the operands have not run on."""
    text = (node["metadata"].get("annotations") or {}).get(names.STATE_ANNOTATION, "")
    try:
        values = json.loads(text) if text else asdict(OperandMemory())
        return OperandMemory(**values | {"plugin_config": PluginConfig(**values["plugin_config"])})
    except (ValueError, TypeError, KeyError):
        return OperandMemory()
