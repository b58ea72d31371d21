"""Keeps the API server reading the ConfigMaps that policies judge by.

When the last binding with such parameters goes, the server stops watching ConfigMaps for good: policies that
come later judge by what it saw last, or by nothing (kubernetes issues 130887 and 133827, seen with 1.36.3).
A local control plane sees environments come and go, so it has a binding of its own that stays.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from gpupool.cluster.kube_api import KubeApi

_FILE = Path(__file__).parent / "parameters_anchor.yaml"
_MANAGER = "gpupool-local"


def apply(api: KubeApi) -> None:
    """Have the binding, on a server that is ready. Raises ApiError."""
    for body in yaml.safe_load_all(_FILE.read_text(encoding="utf-8")):
        api.apply(body, _MANAGER, force=True)
