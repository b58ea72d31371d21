"""The DeviceClasses by which GPUs can be claimed beside the pools, and what a quota says so that none is.

No pool is served by dynamic resource allocation (DRA). The facts are in `device_classes.yaml`; this is their
only reader.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import yaml

_FILE = Path(__file__).parent / "device_classes.yaml"
_CLASSES = yaml.safe_load(_FILE.read_text(encoding="utf-8"))["classes"]
GPU_CLASSES: tuple[str, ...] = tuple(row["name"] for row in _CLASSES)
"""Names of the DeviceClasses of NVIDIA's driver that give GPUs."""


def uncounted_devices(allowed: Collection[str] = ()) -> tuple[str, ...]:
    """What a quota calls GPUs that no quota of an extended resource counts, except of `allowed` classes:
    by claims, and by the resource that every class has by itself.

    Seen on Kubernetes 1.36.3: without these entries claims and pods of such a class are admitted and
    charged to nothing. A class with an extended resource is left out: kube-scheduler makes a claim for
    each pod that asks for the resource on a node of a DRA driver, a quota of 0 refuses that claim, and
    the pod waits.
    """
    return tuple(
        resource.format(row["name"])
        for row in _CLASSES
        if "extendedResource" not in row and row["name"] not in allowed
        for resource in (
            "{}.deviceclass.resource.k8s.io/devices",
            "requests.deviceclass.resource.kubernetes.io/{}",
        )
    )
