"""Images of gpupool itself, which run under the policies of the same file. Only for other checks."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.plan.checks.context import Context, Problem
from gpupool.spec.yaml_source import Loc


def problems(context: Context, loc: Loc, image: str) -> Iterator[Problem]:
    """It is pinned, and of a registry that is allowed."""
    last = image.rpartition("/")[2]
    if ":" not in last or last.endswith(":latest"):
        message = f"image {image!r} is not pinned, and the policy pin-images refuses its pod"
        yield Problem(loc, message, "name a version, or better a digest (image@sha256:...)")
    registries = context.environment.policies.limits.registries
    listed = registries and not context.gaps.touches(("policies", "limits", "registries"))
    if listed and not any(image.startswith(f"{registry}/") for registry in registries):
        message = f"image {image!r} is of no registry in policies.limits.registries"
        yield Problem(loc, message, f"take it from one of: {', '.join(registries)}")
