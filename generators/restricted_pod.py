"""The security settings of pods that gpupool makes itself, as Pod Security's `restricted` level wants them.

For pods that only hold a place or a slice; a workload's settings are its owner's.
"""

from __future__ import annotations

from typing import Any

PAUSE_IMAGE = (
    "registry.k8s.io/pause:3.10@sha256:ee6521f290b2168b6e0935a181d4cff9be1ac3f505666ef0e3c98fae8199917a"
)
"""Does nothing; runs on every architecture and as any user. The digest is the index's, as Cilium's sources
and others have it (November 2026)."""

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
