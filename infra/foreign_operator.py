"""A GPU Operator that somebody else runs: may its ClusterPolicy be pointed at our configurations?

Only reads. What is set there by its owner is refused rather than overwritten, because giving a field
up on destroy would not bring the owner's value back.
"""

from __future__ import annotations

from collections.abc import Iterable

from generators.manifest import Manifest
from gpupool.cluster.kube_api import KubeApi
from gpupool.cluster.live_objects import config_name
from gpupool.findings import GpupoolError

_OURS = "gpupool-"


def check(manifests: Iterable[Manifest], api: KubeApi) -> None:
    """Raise GpupoolError where a ClusterPolicy that is to be patched is missing or taken."""
    for manifest in manifests:
        if not (manifest.patch and manifest.kind == "ClusterPolicy"):
            continue
        live = api.get(manifest.api_version, manifest.kind, manifest.name)
        if live is None:
            raise GpupoolError(
                f"there is no ClusterPolicy {manifest.name}; install the GPU Operator, "
                "or let gpupool do it (gpuOperator.install: true)"
            )
        for operand in manifest.body["spec"]:
            name = config_name(live, operand)
            if name and not name.startswith(_OURS):
                where = f"the ClusterPolicy's spec.{operand}.config.name"
                raise GpupoolError(
                    f"{where} is {name}, set by somebody else; clear it for the pools' configurations"
                )
