"""The security settings of pods that gpupool makes itself, as Pod Security's `restricted` level wants them.

For pods that only hold a place or a slice; a workload's settings are its owner's.
"""

from __future__ import annotations

from typing import Any

from gpupool.environment.spec.field_types import PAUSE_IMAGE

POD: dict[str, Any] = {
    "automountServiceAccountToken": False,
    "securityContext": {
        "runAsNonRoot": True,
        "runAsUser": 65535,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
}
"""Fields of the pod's spec."""

CONTAINER: dict[str, Any] = {
    "image": PAUSE_IMAGE,
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    },
}
"""Fields of each container."""
