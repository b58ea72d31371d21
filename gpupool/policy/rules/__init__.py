"""Rules over a whole bundle: the Plan and its manifests together, for errors that no single object shows.

They are pure functions. What one object shows by itself belongs into a policy, not here. RULES and
ENVIRONMENT_RULES are the only places where rules are registered; what they say to people is in rules.yaml.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gpupool.environment.plan.cloud_facts import pinned_image
from gpupool.policy.rules import (
    cost,
    counts,
    environments,
    identity,
    machine_images,
    object_limits,
    operator_configs,
    planned_pools,
    priority_classes,
    quotas,
    references,
    slice_memory,
    taints,
)
from gpupool.policy.rules.bundle import EXTERNAL, BundleObject, JudgedRelease, ObjectSet, release_of
from gpupool.policy.rules.rule import Judged, Rule, RuleViolation
from vapcheck import PolicyFinding

_WORDS = {
    "declare": f"or, where others make it, name it in the annotation {EXTERNAL} of an object of the bundle",
    "oversubscribed": quotas.OVERSUBSCRIBED,
    "least_mib": slice_memory.LEAST_MIB,
    "image": pinned_image(),
}
_TEXTS: Mapping[str, Mapping[str, Any]] = yaml.load(
    Path(__file__).with_name("rules.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader
)


def _rule(name: str, check: Callable[[Judged], Iterable[RuleViolation]]) -> Rule[Judged]:
    texts: dict[str, Any] = {
        key: value.format(**_WORDS) if isinstance(value, str) else value
        for key, value in _TEXTS[name].items()
    }
    return Rule(name, check, **texts)


RULES: tuple[Rule[ObjectSet], ...] = (
    _rule("unique-objects", identity.unique),
    _rule("namespaces-exist", references.namespaces),
    _rule("priorities-exist", references.priorities),
    _rule("accounts-exist", references.accounts),
    _rule("configs-exist", references.configs),
    _rule("secrets-exist", references.secrets),
    _rule("node-classes-exist", references.node_classes),
    _rule("admission-complete", references.admission),
    _rule("selectors-match", references.selectors),
    _rule("device-plugin-configs-exist", operator_configs.plugin_configs),
    _rule("exporter-fields-exist", operator_configs.exporter_fields),
    _rule("mig-configs-exist", operator_configs.mig_configs),
    _rule("operator-tolerates-pools", taints.operands),
    _rule("pods-reach-pools", taints.pods),
    _rule("priorities-differ", priority_classes.values),
    _rule("one-default-priority", priority_classes.default),
    _rule("priorities-as-planned", priority_classes.planned),
    _rule("tenant-priorities-bounded", priority_classes.bounded),
    _rule("tenants-have-quotas", quotas.present),
    _rule("pools-have-quotas", quotas.of_pools),
    _rule("quotas-as-granted", quotas.as_granted),
    _rule("quotas-within-capacity", quotas.within_capacity),
    _rule("pools-not-oversubscribed", quotas.oversubscribed),
    _rule("pool-counts-agree", counts.agree),
    _rule("pools-as-planned", planned_pools.present),
    _rule("machine-images-pinned", machine_images.pinned),
    _rule("slices-have-memory", slice_memory.sufficient),
    _rule("cost-within-ceiling", cost.ceiling),
    _rule("budgets-within-ceiling", cost.budgets),
    _rule("objects-within-limits", object_limits.exceeded),
)

ENVIRONMENT_RULES: tuple[Rule[Sequence[ObjectSet]], ...] = (
    _rule("one-environment-per-object", environments.objects),
    _rule("one-environment-per-node", environments.nodes),
)


def check_bundle(bundle: ObjectSet) -> list[PolicyFinding]:
    """What is wrong with one bundle, rule by rule."""
    whole = bundle.plan is not None
    return [finding for rule in RULES for finding in rule.findings(bundle, whole)]


def check_bundles(bundles: Iterable[ObjectSet]) -> list[PolicyFinding]:
    """What is wrong between several environments. What is wrong with each alone is not repeated."""
    together = tuple(bundles)
    return [finding for rule in ENVIRONMENT_RULES for finding in rule.findings(together, True)]


__all__ = [
    "ENVIRONMENT_RULES",
    "EXTERNAL",
    "RULES",
    "BundleObject",
    "JudgedRelease",
    "ObjectSet",
    "Rule",
    "RuleViolation",
    "check_bundle",
    "check_bundles",
    "release_of",
]
