"""Versions that lack what a pool needs, and Helm values that contradict one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from gpupool.environment.catalog.models import GpuModel
from gpupool.environment.plan.checks.context import CheckContext, PlanProblem
from gpupool.environment.plan.operator_releases import (
    OperatorRelease,
    driver_problems,
    load_operator_releases,
    release_problems,
    version_key,
)
from gpupool.environment.plan.owned_settings import given_variables, owned_values
from gpupool.environment.plan.platforms import PLATFORMS
from gpupool.environment.sharing import Sharing
from gpupool.environment.spec import environment as spec
from gpupool.environment.spec.yaml_source import Loc

_KARPENTER_MINIMUM = (1, 7)
"""First release with NodeOverlay (Karpenter 1.7, alpha gate)."""
_KUBERNETES_MINIMUM = (1, 30)
"""First version where ValidatingAdmissionPolicy, which enforces the policies, is stable."""


def releases(context: CheckContext) -> Iterator[PlanProblem]:
    environment = context.environment
    operator, known = environment.gpu_operator, load_operator_releases()
    if version_key(environment.cluster.kubernetes_version) < _KUBERNETES_MINIMUM:
        message = f"Kubernetes {environment.cluster.kubernetes_version} is too old"
        yield PlanProblem(
            ("cluster", "kubernetesVersion"), message, "use 1.30 or newer: policies need its admission API"
        )
    if (
        context.platform is not None
        and PLATFORMS[context.platform].karpenter
        and version_key(environment.karpenter.version) < _KARPENTER_MINIMUM
    ):
        message = (
            f"Karpenter {environment.karpenter.version} has no NodeOverlay and would count physical GPUs"
        )
        yield PlanProblem(("karpenter", "version"), message, "use 1.7 or newer")
    release = known.releases.get(operator.version) or known.spelled_otherwise(operator.version)
    if release and release.version != operator.version:
        message = f"GPU Operator {operator.version} is not a version of the chart"
        yield PlanProblem(("gpuOperator", "version"), message, f"write {release.version}")
    if release is None and version_key(operator.version) < min(
        version_key(version) for version in known.releases
    ):
        message = f"GPU Operator {operator.version} is older than all known releases"
        yield PlanProblem(
            ("gpuOperator", "version"), message, f"use {known.tested}, or one of {', '.join(known.releases)}"
        )
    yield from _pool_needs(context, release)


def _pool_needs(context: CheckContext, release: OperatorRelease | None) -> Iterator[PlanProblem]:
    if context.platform is not None and not PLATFORMS[context.platform].operator:
        return  # the cloud chooses the driver
    operator = context.environment.gpu_operator
    driver = operator.driver.version
    loc: Loc = ("gpuOperator", "driver", "version")
    if driver is None and operator.driver.enabled and release is not None:
        driver, loc = release.driver, ("gpuOperator", "version")
    if any(context.gaps.covers(("gpuOperator", "driver", field)) for field in ("enabled", "version")):
        driver = None
    for pool, gpu, shared in _divided(context):
        for problem in driver_problems(driver, gpu, shared) if driver else ():
            yield PlanProblem(loc, f"{problem.message} (pool {pool.name!r})", problem.remediation)
        for problem in release_problems(release, gpu, shared) if release else ():
            yield PlanProblem(
                ("gpuOperator", "version"), f"{problem.message} (pool {pool.name!r})", problem.remediation
            )


def _divided(context: CheckContext) -> Iterator[tuple[spec.Pool, GpuModel, Sharing]]:
    """The pools whose GPU can be divided as they ask, whatever else may be wrong with them."""
    for index, pool in enumerate(context.environment.pools):
        gpu, shared = context.gpu(pool.gpu), context.sharing(pool)
        broken = context.gaps.touches(("pools", index, "sharing"))
        if gpu is not None and not broken and not shared.problems(gpu):
            yield pool, gpu, shared


_KARPENTER_DERIVED = {
    ("settings", "clusterName"): "it follows from cluster.name",
    ("settings", "interruptionQueue"): "it follows from karpenter.interruptionQueue",
    ("settings", "featureGates", "nodeOverlay"): "without it Karpenter counts physical GPUs",
}
_DERIVED_WHERE_RESERVED = {
    (
        "settings",
        "featureGates",
        "reservedCapacity",
    ): "it is on since Karpenter 1.6, and pools with reserved nodes need it",
}


def values(context: CheckContext) -> Iterator[PlanProblem]:
    environment = context.environment
    section: Loc = ("gpuOperator", "values")
    settings = environment.gpu_operator.values
    derived = {owned.path: owned.why for owned in owned_values() if not owned.left}
    yield from _derived(section, settings, derived)
    for setting in given_variables(settings, context.platform):
        if not setting.same:
            message = f"Helm value {setting.name} is derived: {setting.why}"
            yield PlanProblem((*section, *setting.locs[0]), message, "remove it")
    reserved = any(pool.nodes.reserved for pool in environment.pools)
    of_karpenter = _KARPENTER_DERIVED | (_DERIVED_WHERE_RESERVED if reserved else {})
    yield from _derived(("karpenter", "values"), environment.karpenter.values, of_karpenter)
    known = load_operator_releases().chart_values
    for key in environment.gpu_operator.values:
        close = get_close_matches(key, known, 1, 0.8)
        if close and key not in known:
            message = f"Helm value {key} is not a value of the operator's chart"
            yield PlanProblem(("gpuOperator", "values", key), message, f'did you mean "{close[0]}"?')
    partitioned = any(shared.layout for _, _, shared in _divided(context))
    for owned in owned_values():
        if owned.left and owned.undoes(settings, partitioned):
            message = f"Helm value {'.'.join(owned.path)} conflicts with the pools: {owned.why}"
            yield PlanProblem((*section, *owned.path), message, "remove it")


def _derived(section: Loc, given: object, derived: Mapping[tuple[str, ...], str]) -> Iterator[PlanProblem]:
    """Values of `given` that are derived, or that replace a mapping on the way to one."""
    reported: set[tuple[str, ...]] = set()
    for path, reason in derived.items():
        inner = given
        for depth, part in enumerate(path, start=1):
            if not isinstance(inner, dict) or part not in inner:
                break
            inner, loc = inner[part], (*section, *path[:depth])
            if depth == len(path):
                yield PlanProblem(loc, f"Helm value {'.'.join(path)} is derived: {reason}", "remove it")
            elif not isinstance(inner, dict) and path[:depth] not in reported:
                reported.add(path[:depth])
                name = ".".join(path[:depth])
                message = f"Helm value {name} is a mapping in the chart, which this value would replace"
                yield PlanProblem(loc, message, "write a mapping of the values to change")
