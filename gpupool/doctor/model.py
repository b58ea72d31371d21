"""What checks are given and what they say: values alone. Sentences are made in `reasons`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupool.cluster.kube_api import KubeApi
from gpupool.doctor.reasons import CheckState, Reason
from gpupool.generators.manifest import Bundle
from gpupool.infra.rights import Right
from gpupool.json_output import JsonObject, read
from gpupool.plan.model import Plan
from gpupool.spec.environment import Cluster, Environment


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that a check says."""

    subject: str
    """What it is about: a program, a kind, a Secret ..."""
    reason: Reason
    values: Mapping[str, Any]
    """What the reason's sentences are filled with."""
    grants: tuple[Right, ...] = ()
    """Rights to grant where these are what is missing."""
    check: str = ""
    """The check's name."""

    @property
    def state(self) -> CheckState:
        return self.reason.state

    @property
    def blocks(self) -> bool:
        """Whether `up` can't succeed as it is."""
        return self.reason.blocks

    @property
    def message(self) -> str:
        return self.reason.message(self.values)

    @property
    def fix(self) -> str:
        """What to do; empty where there is nothing to do."""
        return self.reason.fix(self.values)


@dataclass(frozen=True, slots=True)
class NamedCluster:
    """The cluster that a file names, whatever else is wrong with the file (`gpupool.infra.access.Target`)."""

    environment: str
    cluster: Cluster


@dataclass(slots=True)
class Inputs:
    """What a check may look at. What its registration asks for is there when it is run."""

    env: str
    """ENV as it was typed."""
    notify: Callable[[str], None]
    """For what takes long."""
    target: NamedCluster | None = None
    """None where the file does not say which cluster."""
    environment: Environment | None = None
    plan: Plan | None = None
    bundle: Bundle | None = None
    """What the plan amounts to; like the plan None where the file has findings."""
    api: KubeApi | None = None
    """None where the cluster can't be used."""
    reads: Mapping[str, tuple[Right, ...]] = field(default_factory=dict)
    """By check: what it reads of the cluster beyond what `up` reads."""
    user: str = ""
    """Who the cluster takes us for; empty where it does not say."""


Check = Callable[[Inputs], Iterator[CheckResult]]


def result(subject: str, reason: Reason, /, **values: Any) -> CheckResult:
    """What a check yields."""
    return CheckResult(subject, reason, values)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All results for one environment."""

    environment: str
    file: str
    results: tuple[CheckResult, ...]
    grant: tuple[Mapping[str, Any], ...]
    """Objects that give the account what it lacks; empty where it lacks nothing."""

    @property
    def ready(self) -> bool:
        """Whether all prerequisites of `up` are met."""
        return not any(result.blocks for result in self.results)

    def as_dict(self) -> dict[str, Any]:
        """The answer as `doctor --format json` promises it."""
        return _DiagnosisJson.of(self)


class _ResultJson(JsonObject):
    check: str
    subject: str
    state: CheckState
    reason: str = read("reason.key")
    blocks: bool
    message: str
    fix: str


class _DiagnosisJson(JsonObject):
    environment: str
    file: str
    ready: bool
    results: list[_ResultJson]
    grant: list[dict[str, Any]]
