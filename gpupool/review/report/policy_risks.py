"""Where a change makes policy laxer: what is enforced less, waived wider, or not there any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.policies import Action, Policies, PolicyLimits
from gpupool.environment.plan.policy_files import policy_names
from gpupool.environment.spec.yaml_source import MAX_BYTES
from gpupool.review.report.model import Risk, risk
from vapcheck.reading import read_file

_STRICT: Mapping[Action, int] = {"deny": 2, "warn": 1, "audit": 0}
_NUMBERS = (
    ("job_ttl_seconds", "policies.limits.jobTtl", "s"),
    ("job_deadline_seconds", "policies.limits.jobDeadline", "s"),
    ("job_retries", "policies.limits.jobRetries", ""),
    ("budget_after_seconds", "policies.limits.budgetAfter", "s"),
)
"""Limits of which more is laxer."""
_NAMED = 4
"""Up to so many policies with the same change are named; more of them change by a default, which is reported
too."""


def policy_risks(before: Plan, after: Plan) -> Iterator[Risk]:
    """What is enforced less after the change than before it."""
    old, new = before.policies, after.policies
    removed = sorted(policy_names(old.files) - policy_names(new.files))
    for name in removed:
        yield _risk(f"policy {name} is removed")
    yield from _weakened(old, new)
    yield from _edited(old, new)
    if old.scope == "cluster" and new.scope != "cluster":
        yield _risk("policies.scope goes from cluster to gpu: other namespaces' pods are not judged")
    yield from _limits(old.limits, new.limits)


def _weakened(old: Policies, new: Policies) -> Iterator[Risk]:
    """One risk for all policies that go the same way: a changed default must not hide the other risks."""
    ways: dict[tuple[Action, Action], list[str]] = {}
    names = sorted(policy_names(new.files) & policy_names(old.files))
    for name in names:
        was, now = _action(old, name), _action(new, name)
        if _STRICT[now] < _STRICT[was]:
            ways.setdefault((was, now), []).append(name)
    for (was, now), found in ways.items():
        if len(found) == 1:
            yield _risk(f"policy {found[0]} goes from {was} to {now}")
        elif len(found) == len(names):
            yield _risk(f"all {len(found)} policies go from {was} to {now}")
        else:
            more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            named = ", ".join(found[:_NAMED])
            yield _risk(f"{len(found)} policies go from {was} to {now}: {named}{more}")


def _action(policies: Policies, name: str) -> Action:
    return policies.overrides.get(name, policies.default)


def _edited(old: Policies, new: Policies) -> Iterator[Risk]:
    """The project's own files whose text differs; a reviewer must read whether they are laxer."""
    before = {path.name: path for path in old.files}
    for path in new.files:
        was = before.get(path.name)
        if was is not None and was != path and read_file(was, MAX_BYTES) != read_file(path, MAX_BYTES):
            yield risk("policy", f"policies/{path.name} is edited; check that it is still effective")


def _limits(old: PolicyLimits, new: PolicyLimits) -> Iterator[Risk]:
    if old.registries and not new.registries:
        yield _risk("policies.limits.registries is emptied: images may come from anywhere")
    elif old.registries and set(new.registries) - set(old.registries):
        added = ", ".join(sorted(set(new.registries) - set(old.registries)))
        yield _risk(f"images may also come from {added}")
    classes = ", ".join(sorted(set(new.device_classes) - set(old.device_classes)))
    if classes:
        yield _risk(f"tenants may claim devices of class {classes}, which no quota counts")
    for attribute, name, unit in _NUMBERS:
        was, now = getattr(old, attribute), getattr(new, attribute)
        if now > was:
            yield _risk(f"{name} goes from {was}{unit} to {now}{unit}")


def _risk(text: str) -> Risk:
    return risk("policy", f"weaker: {text}")
