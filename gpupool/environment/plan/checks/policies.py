"""Policies: what overrides and waivers refer to exists, and no exception is given twice or has no effect."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.plan.checks.context import CheckContext, PlanProblem, closest
from gpupool.environment.plan.policy_files import policy_names, read_objects
from gpupool.environment.spec.yaml_source import Loc
from gpupool.findings import GpupoolError

_CLUSTER_SCOPED = frozenset(("nodepools", "nodes", "namespaces"))
"""Resources without a namespace that the shipped policies match. A policy that matches any other resource
counts as one about objects in namespaces."""


def references(context: CheckContext) -> Iterator[PlanProblem]:
    """Overrides and waivers name policies that exist."""
    section = context.environment.policies
    if not section.overrides and not section.waivers:
        return
    try:
        known = policy_names(context.policy_files)
    except GpupoolError as error:
        yield PlanProblem(("policies",), str(error), "a policy file that can't be read enforces nothing")
        return
    named: list[tuple[Loc, str]] = [(("policies", "overrides", name), name) for name in section.overrides]
    named += [(("policies", "waivers", at, "policy"), w.policy) for at, w in enumerate(section.waivers)]
    for loc, name in named:
        if name not in known:
            # An override is called by its key, which is sound where its value is not.
            judged_by = (loc[:-1],) if loc[1] == "overrides" else ()
            yield PlanProblem(loc, f"policy {name!r} is not defined", closest(name, sorted(known)), judged_by)


def waivers(context: CheckContext) -> Iterator[PlanProblem]:
    """A policy has at most one waiver for a namespace, and none with a namespace if its objects have none."""
    seen: dict[tuple[str, str | None], int] = {}
    given = context.environment.policies.waivers
    cluster_scoped = _cluster_scoped_policies(context) if any(one.namespace for one in given) else set()
    for index, waiver in enumerate(given):
        if context.gaps.covers(("policies", "waivers", index, "namespace")):
            continue
        first = seen.setdefault((waiver.policy, waiver.namespace), index)
        where = f"namespace {waiver.namespace!r}" if waiver.namespace else "everywhere"
        if first != index:
            at = context.gaps.place(("policies", "waivers", first))[-1]
            message = f"policy {waiver.policy!r} is waived for {where} by waivers[{at}] already"
            yield PlanProblem(("policies", "waivers", index), message, "remove one of them")
        elif waiver.namespace and waiver.policy in cluster_scoped:
            message = f"policy {waiver.policy!r} applies to cluster-scoped objects"
            remediation = "remove `namespace` to waive it for the whole cluster"
            yield PlanProblem(("policies", "waivers", index, "namespace"), message, remediation)


def _cluster_scoped_policies(context: CheckContext) -> set[str]:
    """Names of the policies that match only resources in `_CLUSTER_SCOPED`; none if the files can't be read,
    which `references` reports."""
    try:
        objects = read_objects(context.policy_files)
    except GpupoolError:
        return set()
    found = set()
    for body in objects:
        rules = ((body.get("spec") or {}).get("matchConstraints") or {}).get("resourceRules") or ()
        resources = [resource for rule in rules for resource in rule.get("resources", ())]
        if resources and _CLUSTER_SCOPED.issuperset(resources):
            found.add(body["metadata"]["name"])
    return found
