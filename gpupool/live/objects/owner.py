"""Whose an object is: the one rule by which gpupool knows its own objects, and the environment of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupool.environment.plan.delivery import ENGINE_FACTS
from gpupool.environment.plan.model import ENVIRONMENT_LABEL, MANAGED_BY
from gpupool.live.cluster.snapshot import labels
from gpupool.live.objects.managed_fields import appliers, managers

FIELD_MANAGER, PROVIDER_MANAGER = ENGINE_FACTS["pulumi"].managers
"""Who owns the fields of what `up` applies. We name the first. A provider uses the second where it creates
an object plainly (pulumi-kubernetes from 4.29.0 on, unless it has the option upsertExistingObjects)."""

OURS = f"{MANAGED_BY}=gpupool,{ENVIRONMENT_LABEL}"
"""A selector of every object that was made from an environment's file."""


def selector(environment: str) -> str:
    """Of the objects that were made from this environment's file."""
    return f"{OURS}={environment}"


def environment_of(live: Mapping[str, Any]) -> str:
    """The environment that the object was made from; empty where gpupool did not make it."""
    have = labels(dict(live))
    return have.get(ENVIRONMENT_LABEL, "") if have.get(MANAGED_BY) == "gpupool" else ""


def made_by_up(live: Mapping[str, Any]) -> bool:
    """Whether `up`, or plain `pulumi up`, has made or applied the object. Any Pulumi program may have the
    provider's manager, so that the labels of an environment must say the same."""
    return FIELD_MANAGER in appliers(live) or (
        PROVIDER_MANAGER in managers(live) and bool(environment_of(live))
    )


def belongs_to(live: Mapping[str, Any], environment: str) -> bool:
    """Whether `up` of this environment has made the object; also where somebody has removed its labels."""
    return made_by_up(live) and environment_of(live) in ("", environment)
