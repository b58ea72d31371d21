"""Input and results of the doctor's checks, as values; their sentences are made in `reasons`."""

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
    """One result of a check; a check may have several."""

    subject: str
    """What the result is about: a program, a kind, a Secret ..."""
    reason: Reason
    values: Mapping[str, Any]
    """Values of the placeholders in the reason's sentences."""
    grants: tuple[Right, ...] = ()
    """Rights to grant, if missing rights are the reason."""
    check: str = ""
    """Name of the check; set by `checks._results`, empty until then."""

    @property
    def state(self) -> CheckState:
        return self.reason.state

    @property
    def blocks(self) -> bool:
        """Whether `up` would fail."""
        return self.reason.blocks

    @property
    def message(self) -> str:
        return self.reason.message(self.values)

    @property
    def remediation(self) -> str:
        """What to do; empty if there is nothing to do."""
        return self.reason.remediation(self.values)

    def finding(self, file: str) -> Finding | None:
        """The result as a finding about `file`; None if nothing is wrong."""
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
class DoctorInput:
    """What a check may read.

    Which of the optional fields are set depends on the check's `Need` in `checks.CHECKS`; a check is not run
    without them.
    """

    env: str
    """ENV as it was typed."""
    notify: Callable[[str], None]
    """Called with what is being done, before a step that takes long."""
    target: NamedCluster | None = None
    """None if the file does not say which cluster."""
    environment: Environment | None = None
    plan: Plan | None = None
    bundle: Bundle | None = None
    """The plan's objects and charts; None, as the plan, if the file has findings."""
    api: KubeApi | None = None
    """None if the cluster can't be used."""
    reads: Mapping[str, tuple[Right, ...]] = field(default_factory=dict)
    """By check, the rights that it needs to read the cluster beyond those of `up`."""
    user: str = ""
    """The user that the cluster authenticates us as; empty if it does not say."""


Check = Callable[[DoctorInput], Iterator[CheckResult]]


def result(subject: str, reason: Reason, /, **values: Any) -> CheckResult:
    """A result whose check is not set yet; this is what checks yield."""
    return CheckResult(subject, reason, values)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All results for one environment."""

    environment: str
    file: str
    results: tuple[CheckResult, ...]
    grant: tuple[Mapping[str, Any], ...]
    """Objects that grant the account its missing rights; empty if none is missing."""

    @property
    def ready(self) -> bool:
        """Whether all prerequisites of `up` are met."""
        return not any(result.blocks for result in self.results)

    @property
    def summary(self) -> str:
        """The diagnosis in one line."""
        blocking = sum(row.blocks for row in self.results)
        unknown = sum(row.state is CheckState.UNKNOWN for row in self.results)
        tail = f"; {unknown} could not be checked" if unknown else ""
        if not blocking:
            return f"{self.environment}: all prerequisites met{tail}"
        return f"{self.environment}: {blocking} prerequisite{'s' if blocking != 1 else ''} not met{tail}"

    def finding_report(self) -> FindingReport:
        """The results that are wrong, as findings; JSON has all results too."""
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
