"""Bundles to be broken: what a shipped environment amounts to, as plain values that a test may change.

The golden tests hold these manifests to the files in `tests/golden/rendered`, so they are those files.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import generate
from gpupool.generators.manifest import Bundle as Made
from gpupool.policy.rules import JudgedRelease, ObjectSet, check_bundle
from vapcheck import PolicyFinding

SHIPPED = ("dev", "homelab", "local", "prod", "staging")
Body = dict[str, Any]


@dataclass
class Draft:
    """One environment's manifests, free to be changed."""

    plan: Plan | None
    environment: str
    bodies: list[Body]
    patches: list[Body]
    releases: list[JudgedRelease] = field(default_factory=list)

    def one(self, kind: str, name: str | None = None) -> Body:
        """The object of that kind and name, or the first of that kind."""
        return next(
            body
            for body in [*self.bodies, *self.patches]
            if body["kind"] == kind and name in (None, body["metadata"]["name"])
        )

    def drop(self, kind: str, name: str) -> None:
        """Leave an object out."""
        body = self.one(kind, name)
        self.bodies = [other for other in self.bodies if other is not body]
        self.patches = [other for other in self.patches if other is not body]

    def values(self, release: str) -> Body:
        """Values of a Helm release."""
        found = next(made for made in self.releases if made.name == release)
        assert isinstance(found.values, dict)
        return found.values

    def bundle(self) -> ObjectSet:
        return ObjectSet.of(
            self.environment, self.bodies, patches=self.patches, releases=self.releases, plan=self.plan
        )

    def findings(self) -> list[PolicyFinding]:
        return check_bundle(self.bundle())


def draft_of(plan: Plan, made: Made | None = None) -> Draft:
    """What a plan amounts to."""
    made = made or generate(plan)
    bodies = [copy.deepcopy(dict(found.body)) for found in made.manifests if not found.patch]
    patches = [copy.deepcopy(dict(found.body)) for found in made.manifests if found.patch]
    releases = [
        JudgedRelease(found.name, found.namespace, found.chart, copy.deepcopy(dict(found.values)))
        for found in made.releases
    ]
    return Draft(plan, plan.environment, bodies, patches, releases)


@cache
def _shipped(name: str) -> tuple[Plan, Made]:
    plan = read_plan(name)
    return plan, generate(plan)


def shipped(name: str) -> Draft:
    """A shipped environment."""
    return draft_of(*_shipped(name))


def job(namespace: str, **spec: Any) -> Body:
    """A Job whose pod has `spec`."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "try", "namespace": namespace},
        "spec": {"template": {"metadata": {"labels": {"job": "try"}}, "spec": spec}},
    }
