"""How containers get GPUs on the nodes: by what the device plugin requests for them, and by nothing else.

By default NVIDIA's container runtime honours NVIDIA_VISIBLE_DEVICES of every container, and most CUDA images
set it to `all`: a container without a request then sees every GPU of the node.

Not run on a GPU. Sources: nvidia-container-toolkit v1.20.0, internal/config/image/cuda_image.go (annotations
and mounts of /dev/null go before the variable, which is then ignored in unprivileged containers) and
cmd/nvidia-ctk-installer/toolkit; gpu-operator, controllers/object_controls.go (a user's variables go last).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpupool.environment.plan.operator_releases import CDI_BY_DEFAULT, load_operator_releases
from gpupool.environment.spec.environment import GpuOperator

_NO_VARIABLE = {"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "value": "false"}
_MOUNTS = {"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS", "value": "true"}
_BY_MOUNTS = {"name": "DEVICE_LIST_STRATEGY", "value": "volume-mounts"}


def values(operator: GpuOperator) -> dict[str, Any]:
    """Helm values of toolkit and device plugin, beside the user's own variables
    (gpupool.environment.plan.owned_settings refuses ours there).

    Empty where the machine image brings the toolkit, which is then configured there.
    """
    toolkit, plugin, cdi = (_section(operator.values, name) for name in ("toolkit", "devicePlugin", "cdi"))
    if toolkit.get("enabled") is False:
        return {}
    by_default = load_operator_releases().has(operator.version, CDI_BY_DEFAULT)
    if cdi.get("enabled", by_default):
        return {"toolkit": {"env": with_variables(toolkit, [_NO_VARIABLE])}}
    # Without CDI the device plugin requests by the same variable, so it has to do it by mounts.
    return {
        "toolkit": {"env": with_variables(toolkit, [_NO_VARIABLE, _MOUNTS])},
        "devicePlugin": {"env": with_variables(plugin, [_BY_MOUNTS])},
    }


def _section(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = given.get(name)
    return found if isinstance(found, Mapping) else {}


def with_variables(operand: Mapping[str, Any], ours: Sequence[Mapping[str, str]]) -> list[Any]:
    """The user's variables of an operand and ours, each once: Helm replaces lists as a whole."""
    names = {row["name"] for row in ours}
    theirs = operand.get("env") or []
    others = [row for row in theirs if not (isinstance(row, Mapping) and row.get("name") in names)]
    return [*others, *map(dict, ours)]
