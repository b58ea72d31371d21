"""The policies' bindings in a cluster -> the section `policies`: actions, waivers, limits.

The inverse of what gpupool generates: the default is the action that needs the fewest overrides. Only
gpupool's own bindings are read; the policies themselves are files beside the environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.cluster_objects import ClusterObjects, ours
from gpupool.adopt.convert.draft import Draft
from gpupool.adopt.convert.quantities import duration
from gpupool.environment.plan.policy_files import BINDING, policy_files, read_objects

_KIND = "ValidatingAdmissionPolicyBinding"
_ACTIONS = ("deny", "warn", "audit")
"""From strict to lax."""
_WAIVED = "waivers.policies.gpupool.dev/"
_EVERYWHERE = "Everywhere"
_NOTE = re.compile(r"(?P<owner>.+?), until (?P<until>[0-9]{4}-[0-9]{2}-[0-9]{2}): (?P<reason>.+)", re.DOTALL)
_LIMITS, _POOLS = "gpupool-limits", "gpupool-pools"
_FIRST = [
    "Policies only warn, since pods that run already may violate them; remove this line",
    "when there are no more warnings.",
]
"""Beside `policies.default` of a cluster that has had no policies of gpupool."""
_DEFAULTS = {
    "jobTtl": (_LIMITS, 604800),
    "jobDeadline": (_LIMITS, 1209600),
    "jobRetries": (_LIMITS, 3),
    "budgetAfter": (_LIMITS, 43200),
    "podGrace": (_POOLS, 3600),
}
"""`policies.limits` of `gpupool.environment.spec.services`, in seconds, and the ConfigMap that has each."""


def jobs_only(cluster: ClusterObjects, draft: Draft) -> None:
    """Pools for Jobs only, by what policies judge by."""
    for pool in draft.pools:
        pool.jobs_only = cluster.parameter(_POOLS, f"jobs-only.{pool.name}") == "true"


def make(cluster: ClusterObjects, draft: Draft) -> None:
    """Put the policies of the cluster on `draft`; where gpupool has none there, they refuse nothing yet."""
    bindings = {
        name: part for part in cluster.all(_KIND) if ours(part) and (name := part.word("spec", "policyName"))
    }
    for part in cluster.all(_KIND):
        part.derived() if ours(part) else part.of_cluster()
    if not bindings:
        draft.policies, draft.policies_origin = {"default": "warn"}, _FIRST
        return
    waivers = [waiver for name, part in sorted(bindings.items()) for waiver in _waivers(name, part)]
    everywhere = {waiver["policy"] for waiver in waivers if "namespace" not in waiver}
    actual = {
        name: action
        for name, part in bindings.items()
        if name not in everywhere and (action := _action(part))
    }
    strictest = {
        str(body["spec"]["policyName"]): _strictest(body["spec"].get("validationActions") or ())
        for body in read_objects(policy_files(None))
        if body["kind"] == BINDING
    }
    default, overrides = _simplest(actual, strictest)
    policies: dict[str, Any] = {} if default == "deny" else {"default": default}
    if cluster.parameter(_LIMITS, "scope") == "cluster":
        policies["scope"] = "cluster"
    if overrides:
        policies["overrides"] = overrides
    if waivers:
        policies["waivers"] = waivers
    limits = _limits(cluster)
    draft.policies = policies | ({"limits": limits} if limits else {})


def _action(part: Part) -> str | None:
    return _strictest([item.value for item in part.at("spec", "validationActions").each()])


def _strictest(actions: Sequence[Any]) -> str | None:
    return next((action for action in _ACTIONS if action.capitalize() in actions), None)


def _simplest(actual: Mapping[str, str], strictest: Mapping[str, str | None]) -> tuple[str, dict[str, str]]:
    """The default and the overrides that give each policy its action; the fewest overrides."""
    overrides = {
        default: {
            name: action
            for name, action in sorted(actual.items())
            if action != _mild(default, strictest.get(name))
        }
        for default in _ACTIONS
    }
    return min(overrides.items(), key=lambda option: len(option[1]))


def _mild(default: str, strictest: str | None) -> str:
    """The default weakens what a policy's file says and never strengthens it."""
    return max(default, strictest or "audit", key=_ACTIONS.index)


def _waivers(policy: str, part: Part) -> list[dict[str, str]]:
    found = []
    for key, note in part.at("metadata", "annotations").items():
        match = _NOTE.fullmatch(str(note.value)) if key.startswith(_WAIVED) else None
        if match is not None:
            namespace = key.removeprefix(_WAIVED)
            where = {} if namespace == _EVERYWHERE else {"namespace": namespace}
            found.append({"policy": policy, **where, **match.groupdict()})
    return found


def _limits(cluster: ClusterObjects) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    classes = cluster.parameter(_LIMITS, "deviceClasses").split()
    if classes:
        limits["deviceClasses"] = classes
    registries = cluster.parameter(_LIMITS, "registries").split()
    if registries:
        limits["registries"] = [registry.removesuffix("/") for registry in registries]
    for name, (parameters, default) in _DEFAULTS.items():
        key = name if name == "jobRetries" else f"{name}Seconds"
        text = cluster.parameter(parameters, key)
        if text.isdecimal() and int(text) != default:
            limits[name] = int(text) if name == "jobRetries" else duration(int(text))
    return limits
