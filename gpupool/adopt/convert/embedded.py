"""Configurations that are text inside other objects: ConfigMaps, and Helm values that make ConfigMaps.

Finds them and makes documents of their own of them, so that each of their values is accounted for. What is
in them is for `gpupool.adopt.convert.device_plugin` and `gpupool.adopt.convert.mig_parted`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.adopt.convert import plugin_values
from gpupool.adopt.convert.documents import Document, inner_document
from gpupool.environment.spec.yaml_source import Loc, value_at

_IN_VALUES: tuple[Loc, ...] = (("devicePlugin", "config", "data"), ("migManager", "config", "data"))
_PLUGIN_KEYS = {"flags", "sharing", "resources", "imex"}


def is_device_plugin(data: Any) -> bool:
    """Whether this is a configuration of the NVIDIA device plugin (k8s-device-plugin v0.20.0, api/config/v1):
    `version` and one of its sections, or `version: v1` alone, which shares nothing."""
    if not isinstance(data, dict) or {"kind", "apiVersion", "mig-configs"} & data.keys():
        return False
    return "version" in data and (bool(_PLUGIN_KEYS & data.keys()) or set(data) == {"version"})


def is_mig_parted(data: Any) -> bool:
    """Whether this is a configuration of mig-parted (v0.15.0)."""
    return isinstance(data, dict) and "mig-configs" in data


def is_operator_values(data: Any) -> bool:
    """Whether this can be Helm values of the GPU Operator (chart gpu-operator v26.7.0)."""
    if not isinstance(data, dict) or "kind" in data or is_mig_parted(data) or is_device_plugin(data):
        return False
    if plugin_values.values_loc(data) is not None:
        return isinstance(data.get("gpu-operator"), dict)
    known = {"devicePlugin", "migManager", "dcgmExporter", "gfd", "toolkit", "mig", "gpu-operator"}
    return bool(known & data.keys()) or {"driver", "operator"} <= data.keys()


def embedded(document: Document) -> Iterator[tuple[Loc, Document]]:
    """Where in `document` a configuration is text, and the configuration as a document of its own."""
    if document.kind == "ConfigMap":
        roots: tuple[Loc, ...] = (("data",),)
    elif document.kind:
        return
    else:
        outer = (
            ("gpu-operator",) if isinstance(document.data, dict) and "gpu-operator" in document.data else ()
        )
        roots = tuple((*outer, *path) for path in _IN_VALUES)
        chart = plugin_values.values_loc(document.data)
        roots += ((*chart, "config", "map"),) if chart is not None else ()
    for root in roots:
        held = value_at(document.data, root)
        for key in held if isinstance(held, dict) else ():
            yield from _configuration(document, (*root, key))


def _configuration(document: Document, loc: Loc) -> Iterator[tuple[Loc, Document]]:
    inner = inner_document(document, loc)
    if inner is not None and (is_device_plugin(inner.data) or is_mig_parted(inner.data)):
        yield loc, inner
