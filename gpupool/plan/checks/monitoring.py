"""Monitoring: what `gpupool assert` needs to run inside of the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.plan.checks.context import Context, Problem

_LOC = ("monitoring", "assertion")
_FIELDS = 5
_MACROS = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")


def assertion(context: Context) -> Iterator[Problem]:
    """An image that is pinned and allowed, and a schedule that a CronJob takes."""
    wanted = context.environment.monitoring.assertion
    if wanted is None:
        return
    last = wanted.image.rpartition("/")[2]
    if ":" not in last or last.endswith(":latest"):
        message = f"image {wanted.image!r} is not pinned, and the policy pin-images refuses its pod"
        yield Problem((*_LOC, "image"), message, "name a version, or better a digest (image@sha256:...)")
    registries = context.environment.policies.limits.registries
    listed = registries and not context.gaps.touches(("policies", "limits", "registries"))
    if listed and not any(wanted.image.startswith(f"{registry}/") for registry in registries):
        message = f"image {wanted.image!r} is of no registry in policies.limits.registries"
        yield Problem((*_LOC, "image"), message, f"take it from one of: {', '.join(registries)}")
    if wanted.schedule not in _MACROS and len(wanted.schedule.split()) != _FIELDS:
        message = f"{wanted.schedule!r} is not a schedule of a CronJob"
        yield Problem((*_LOC, "schedule"), message, 'write five fields, e.g. "*/10 * * * *"')
