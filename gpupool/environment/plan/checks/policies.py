"""Policies: what overrides and waivers refer to exists, and no exception is given twice or has no effect."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.plan.checks.context import CheckContext, PlanProblem, closest
from gpupool.environment.plan.policy_files import policy_names, read_objects
from gpupool.environment.spec.yaml_source import Loc
from gpupool.findings import GpupoolError

_CLUSTER_SCOPED = ("nodepools", "nodes", "namespaces")


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
    """One waiver for a policy and a namespace; none with a namespace where objects have none."""
    seen: dict[tuple[str, str | None], int] = {}
    given = context.environment.policies.waivers
    for index, waiver in enumerate(given):
        if context.gaps.covers(("policies", "waivers", index, "namespace")):
            continue
        first = seen.setdefault((waiver.policy, waiver.namespace), index)
        where = f"namespace {waiver.namespace!r}" if waiver.namespace else "everywhere"
        if first != index:
            at = context.gaps.place(("policies", "waivers", first))[-1]
            message = f"policy {waiver.policy!r} is waived for {where} by waivers[{at}] already"
            yield PlanProblem(("policies", "waivers", index), message, "remove one of them")
        elif waiver.namespace and waiver.policy in _without_namespace(context):
            message = f"policy {waiver.policy!r} applies to cluster-scoped objects"
            remediation = "remove `namespace` to waive it for the whole cluster"
            yield PlanProblem(("policies", "waivers", index, "namespace"), message, remediation)


def _without_namespace(context: CheckContext) -> set[str]:
    """Policies that match nothing but cluster-scoped kinds that the shipped ones know."""
    try:
        objects = read_objects(context.policy_files)
    except GpupoolError:
        return set()
    found = set()
    for body in objects:
        rules = ((body.get("spec") or {}).get("matchConstraints") or {}).get("resourceRules") or ()
        resources = [resource for rule in rules for resource in rule.get("resources", ())]
        if resources and all(resource in _CLUSTER_SCOPED for resource in resources):
            found.add(body["metadata"]["name"])
    return found
