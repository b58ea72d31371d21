"""Whose an object is: the one rule by which gpupool knows its own objects, and the environment of each."""

from __future__ import annotations

from gpupool.cluster.snapshot import Object, labels
from gpupool.plan.model import ENVIRONMENT_LABEL, MANAGED_BY

OURS = f"{MANAGED_BY}=gpupool,{ENVIRONMENT_LABEL}"
"""A selector of every object that was made from an environment's file."""


def selector(environment: str) -> str:
    """Of the objects that were made from this environment's file."""
    return f"{OURS}={environment}"


def environment_of(live: Object) -> str:
    """The environment that the object was made from; empty where gpupool did not make it."""
    have = labels(live)
    return have.get(ENVIRONMENT_LABEL, "") if have.get(MANAGED_BY) == "gpupool" else ""
