"""What checks are given and what they say: values alone. Sentences are made in `reasons`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupool.adopt.doctor.needed_rights import Right
from gpupool.adopt.doctor.reasons import CheckState, Reason
from gpupool.environment.plan.model import Plan
from gpupool.environment.spec.environment import Cluster, Environment
from gpupool.findings import Category, Finding, FindingReport
from gpupool.findings.json_output import JsonObject, read
from gpupool.generators.manifest import Bundle
from gpupool.live.cluster.kube_api import KubeApi


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
    def remediation(self) -> str:
        """What to do; empty where there is nothing to do."""
        return self.reason.remediation(self.values)

    def finding(self, file: str) -> Finding | None:
        """It as a finding about `file`; None where nothing is amiss."""
        if self.state in (CheckState.OK, CheckState.WILL_BE_INSTALLED):
            return None
        advisory = Category.unknown if self.state is CheckState.UNKNOWN else Category.advisory
        return Finding(
            code=f"{self.check}-{self.reason.key}",
            category=Category.blocking if self.blocks else advisory,
            what=self.message,
            remediation=self.remediation,
            file=file,
            object="" if self.subject == self.check else self.subject,
            details={"check": self.check, "state": self.state.value, "reason": self.reason.key},
        )


@dataclass(frozen=True, slots=True)
class NamedCluster:
    """The cluster that a file names, whatever else is wrong with the file
    (`gpupool.live.cluster.access.Target`)."""

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

    @property
    def summary(self) -> str:
        """All of it in one line."""
        blocking = sum(row.blocks for row in self.results)
        unknown = sum(row.state is CheckState.UNKNOWN for row in self.results)
        tail = f"; {unknown} could not be checked" if unknown else ""
        if not blocking:
            return f"{self.environment}: all prerequisites met{tail}"
        return f"{self.environment}: {blocking} prerequisite{'s' if blocking != 1 else ''} not met{tail}"

    def finding_report(self) -> FindingReport:
        """All of it for machines; JSON has the results of all checks too."""
        found = [finding for row in self.results if (finding := row.finding(self.file))]
        passed = [row.check for row in self.results if row.finding(self.file) is None]
        return FindingReport(
            command="doctor",
            findings=tuple(found),
            summary=self.summary,
            targets=(self.file,),
            judged=dict.fromkeys(passed, ""),
            more=_DiagnosisJson.of(self),
        )


class _ResultJson(JsonObject):
    check: str
    subject: str
    state: CheckState
    reason: str = read("reason.key")
    blocks: bool
    message: str
    remediation: str


class _DiagnosisJson(JsonObject):
    environment: str
    file: str
    ready: bool
    results: list[_ResultJson]
    grant: list[dict[str, Any]]
