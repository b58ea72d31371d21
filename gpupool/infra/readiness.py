"""Checks, after `up`, whether what was applied is also accepted: overlays valid, NodePools ready.

Cheap: one list per kind. It distinguishes what will resolve itself (a controller that has not acted yet)
from what never will (two overlays in conflict: Karpenter then starts nodes on wrong assumptions and
says so in the overlay's status only; NodeOverlay, Karpenter v1.14.1).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from gpupool.generators.kinds import kind_of
from gpupool.generators.manifest import Bundle, Manifest
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.cluster.live_objects import condition

WAIT_SECONDS = 3.0


@dataclass(frozen=True)
class Unready:
    """What is not as it should be."""

    waiting: tuple[str, ...]
    """Not judged yet, or not ready for a reason that may pass."""
    broken: tuple[str, ...]
    """Refused: will not work until the file changes."""


def inspect(api: KubeApi, bundle: Bundle, wait: float = WAIT_SECONDS) -> Unready:
    """The state of the bundle's overlays, pools and classes, given `wait` seconds to be judged."""
    manifests = [manifest for manifest in bundle if kind_of(manifest.kind).accepted]
    until = time.monotonic() + wait
    while True:
        report = _judge(api, manifests)
        if report.broken or not report.waiting or time.monotonic() > until:
            return report
        time.sleep(0.2)


def _judge(api: KubeApi, wanted: list[Manifest]) -> Unready:
    live: dict[tuple[str, str], dict[str, Any]] = {}
    for version, kind in sorted({(manifest.api_version, manifest.kind) for manifest in wanted}):
        for row in api.list(version, kind):
            live[(kind, row["metadata"]["name"])] = row
    waiting: list[str] = []
    broken: list[str] = []
    for manifest in wanted:
        accepted = kind_of(manifest.kind).accepted or ""
        found = condition(live.get((manifest.kind, manifest.name), {}), accepted)
        if found.get("status") == "True":
            continue
        reason = found.get("message") or found.get("reason") or "its controller has not processed it yet"
        line = f"{manifest}: {accepted} is {found.get('status', 'not known')}: {reason}"
        refused = kind_of(manifest.kind).refusal_lasts and found.get("status") == "False"
        (broken if refused else waiting).append(line)
    return Unready(tuple(waiting), tuple(broken))
