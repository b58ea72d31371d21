"""Machine images: Karpenter accepts the selectors, and EKS has the image for this Kubernetes version. And
container images of gpupool.

The rules between the fields of amiSelectorTerms are those of the EC2NodeClass's CRD (karpenter-provider-aws
v1.14.1, karpenter.k8s.aws_ec2nodeclasses.yaml); the fields' own are `gpupool.environment.spec`'s.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.image_references import FORM, WrongImage, parsed
from gpupool.environment.plan.checks.context import CheckContext, PlanProblem
from gpupool.environment.plan.cloud_facts import bound, pinned_image
from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.environment.plan.operator_releases import version_key
from gpupool.environment.spec import environment as spec
from gpupool.environment.spec.yaml_source import Loc

_ALONE = ("alias", "id")
_FINDS = ("alias", "id", "name", "tags", "ssmParameter")
_FAMILIES = {"al2": "AL2", "al2023": "AL2023", "bottlerocket": "Bottlerocket"}
_LAST_AL2 = "lastAmazonLinux2"
_BOTTLEROCKET = "bottlerocket@"
BOTTLEROCKET = "Bottlerocket has its own device plugin, which conflicts with the GPU Operator's"
"""Both fail where both run (bottlerocket issue 4309); Bottlerocket's is set by userData alone
(bottlerocket.dev, kubelet-device-plugins, 1.54), and the operator is switched off for whole clusters."""


def bottlerocket(context: CheckContext) -> Iterator[PlanProblem]:
    """No pool's machines are Bottlerocket's."""
    alias = context.environment.karpenter.ami_alias
    if context.platform == "eks" and alias.startswith(_BOTTLEROCKET):
        yield PlanProblem(
            ("karpenter", "amiAlias"), f"{alias} can't be used: {BOTTLEROCKET}", f"use {pinned_image()}"
        )
    for index, pool in enumerate(context.environment.pools):
        image = pool.nodes.image
        if image is None:
            continue
        loc: Loc = ("pools", index, "nodes", "image")
        if image.family == "Bottlerocket":
            remediation = "use AL2023, or Custom with Ubuntu as in docs/known-limits.md"
            yield PlanProblem((*loc, "family"), f"{image.family} can't be used: {BOTTLEROCKET}", remediation)
            continue
        for position, term in enumerate(image.selector_terms):
            if term.alias is not None and term.alias.startswith(_BOTTLEROCKET):
                place = (*loc, "selectorTerms", position, "alias")
                yield PlanProblem(
                    place, f"{term.alias} can't be used: {BOTTLEROCKET}", f"use {pinned_image()}"
                )


def terms(context: CheckContext) -> Iterator[PlanProblem]:
    """Each term selects images, and fields that must be alone in a term are alone."""
    for index, pool in enumerate(context.environment.pools):
        image = pool.nodes.image
        if image is None:
            continue
        loc: Loc = ("pools", index, "nodes", "image", "selectorTerms")
        for position, term in enumerate(image.selector_terms):
            yield from _term(image, term, (*loc, position), len(image.selector_terms))


def _term(image: spec.MachineImage, term: spec.ImageTerm, loc: Loc, count: int) -> Iterator[PlanProblem]:
    fields = [field for field, value in term.model_dump(by_alias=True, exclude_none=True).items() if value]
    if not set(fields) & {*_FINDS}:
        yield PlanProblem(loc, "the term finds no image", f"add one of {', '.join(_FINDS)}")
    for field in _ALONE:
        beside = [other for other in fields if other not in (field, "ssmParameter")]
        if field in fields and beside:
            message = f"{field} can't be combined with {' and '.join(beside)}"
            yield PlanProblem((*loc, field), message, "remove the others, or write a separate term")
            return
    if term.alias is None:
        return
    family = _FAMILIES[term.alias.partition("@")[0]]
    if count > 1:
        remediation = "remove the other terms, or select all images by other fields"
        yield PlanProblem((*loc, "alias"), "an alias must be the only term", remediation)
    if image.family not in (family, "Custom") and "Bottlerocket" not in (image.family, family):
        message = f"alias {term.alias} is of family {family}, but the image's family is {image.family}"
        yield PlanProblem((*loc, "alias"), message, f"use an alias of {image.family}, or family: Custom")


def has_amazon_linux_2(kubernetes: str) -> bool:
    """Whether EKS has an image of Amazon Linux 2 for that version."""
    return version_key(kubernetes) <= version_key(bound(_LAST_AL2).value)


def aliases(context: CheckContext) -> Iterator[PlanProblem]:
    """An alias stands for an image that EKS has for the cluster's Kubernetes."""
    environment = context.environment
    version = environment.cluster.kubernetes_version
    if context.platform != "eks" or context.gaps.covers(("cluster", "kubernetesVersion")):
        return
    found: list[tuple[Loc, str]] = [(("karpenter", "amiAlias"), environment.karpenter.ami_alias)]
    for index, pool in enumerate(environment.pools):
        for position, term in enumerate(pool.nodes.image.selector_terms if pool.nodes.image else ()):
            loc: Loc = ("pools", index, "nodes", "image", "selectorTerms", position, "alias")
            found.append((loc, term.alias or ""))
    for loc, alias in found:
        if alias.startswith("al2@") and not has_amazon_linux_2(version):
            last = bound(_LAST_AL2)
            message = f"{alias}: EKS has no Amazon Linux 2 image for Kubernetes {version}"
            remediation = f"use {pinned_image()}; {last.value} was the last {last.why}"
            yield PlanProblem(loc, message, remediation)


def own(context: CheckContext) -> Iterator[PlanProblem]:
    """The images of the pods that gpupool makes, which run under the policies of the same file: each is
    pinned, and of a registry that is allowed."""
    for loc, image in own_images(context.environment):
        yield from _own(context, loc, image)


def own_images(environment: spec.Environment) -> Iterator[tuple[Loc, str]]:
    """Field and image of every pod that gpupool makes in its own namespace."""
    if any(pool.nodes.warm for pool in environment.pools):
        yield ("karpenter", "warmPodImage"), environment.karpenter.warm_pod_image
    if environment.monitoring.assertion:
        yield ("monitoring", "assertion", "image"), environment.monitoring.assertion.image
    if environment.queue.chart:
        yield ("queue", "chart", "image"), environment.queue.chart.image


def _own(context: CheckContext, loc: Loc, image: str) -> Iterator[PlanProblem]:
    try:
        pinned = parsed(image).pinned
    except WrongImage as error:
        yield PlanProblem(loc, error.problem, FORM)
        return
    if not pinned and _denies(context, "pin-images"):
        message = f"image {image!r} is not pinned, and the policy pin-images refuses its pod"
        yield PlanProblem(loc, message, "name a version, or better a digest (image@sha256:...)")
    registries = context.environment.policies.limits.registries
    listed = (
        registries
        and not context.gaps.touches(("policies", "limits", "registries"))
        and _denies(context, "images-from-allowed-registries")
    )
    if listed and not any(image.startswith(f"{registry}/") for registry in registries):
        message = f"image {image!r} is not from a registry in policies.limits.registries"
        yield PlanProblem(loc, message, f"use one of: {', '.join(registries)}")


def _denies(context: CheckContext, policy: str) -> bool:
    """Whether the policy refuses pods in gpupool's own namespace."""
    policies = context.environment.policies
    waived = (row.namespace in (None, SYSTEM_NAMESPACE) for row in policies.waivers if row.policy == policy)
    return policies.overrides.get(policy, policies.default) == "deny" and not any(waived)
