"""Bottlerocket's settings in a node class's userData -> how the GPUs of its nodes are shared.

Bottlerocket runs a device plugin of its own, configured by `settings.kubelet-device-plugins.nvidia`
(bottlerocket.dev, API reference of kubelet-device-plugins, 1.39 to 1.54). Only that section is read. The
image itself is not carried over, as a pool can't have it (`gpupool.environment.plan.checks.images`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpupool.adopt.convert.account import Part
from gpupool.environment.sharing.replicated import MIN_REPLICAS
from gpupool.environment.spec.yaml_source import value_at

_SECTION = ("settings", "kubelet-device-plugins", "nvidia")
_STRATEGIES = ("time-slicing", "mps")


@dataclass(frozen=True, slots=True)
class UserDataSharing:
    """How a node class shares the GPUs of its nodes."""

    sharing: dict[str, Any]
    """As `sharing` of a pool."""
    origin: str


def is_image(family: str, aliases: Sequence[str]) -> bool:
    """Whether a node class of that amiFamily, or with those aliases of images, starts Bottlerocket."""
    return family == "Bottlerocket" or any(alias.startswith("bottlerocket@") for alias in aliases)


def read(spec: Part, name: str) -> UserDataSharing | None:
    """What the userData of the node class at `spec`, called `name`, says of sharing; None where it says
    nothing, or is not TOML."""
    try:
        section = value_at(tomllib.loads(spec.word("userData")), _SECTION)
    except tomllib.TOMLDecodeError:
        return None
    if not isinstance(section, dict):
        return None
    strategy = section.get("device-sharing-strategy")
    modes = [mode for mode in _STRATEGIES if isinstance(section.get(mode), dict)]
    mode = strategy if strategy in _STRATEGIES else modes[0] if strategy is None and len(modes) == 1 else None
    replicas = section.get(mode, {}).get("replicas") if mode else None
    if not isinstance(replicas, int) or replicas < MIN_REPLICAS:
        return None
    return UserDataSharing({"mode": mode, "replicas": replicas}, f"userData of node class {name}")
