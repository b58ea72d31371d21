"""The environments of a `policy check`: read once, judged by their plans, their findings put in their place.

An environment's manifests were never text, so a finding stands where what it is about was written: a policy's
file, a line of the environment file, or that file as a whole. Judges nothing itself
(`gpupool.policy.gate`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from pathlib import Path

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.policy_files import PolicyFileError
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import Loaded, load
from gpupool.findings import GpupoolError, SpecError, UsageError
from gpupool.generators import generate
from gpupool.generators.manifest import Bundle
from gpupool.policy import gate as policy_gate
from gpupool.policy.unreadable import UNREADABLE, unreadable
from vapcheck import UNKNOWN_MINOR, Document, PolicyFinding, Report, read_files

_PART = re.compile(r"([^.\[\]]+)|\[([0-9]+)\]")
"""One part of a path such as `policies.waivers[0].until`."""


@dataclass(frozen=True)
class ReadEnvironment:
    """An environment that can be judged."""

    path: Path
    loaded: Loaded
    plan: Plan
    bundle: Bundle

    @cached_property
    def documents(self) -> list[Document]:
        """Its objects, including policies, parameters and namespaces."""
        return policy_gate.documents_of(self.plan, self.bundle)

    @cached_property
    def _policies(self) -> Mapping[tuple[str, str], Document]:
        """The policies and bindings as they are written, by kind and name."""
        documents, _ = read_files(self.plan.policies.files)
        return {_named(document): document for document in documents}

    def placed(self, finding: PolicyFinding) -> PolicyFinding:
        """`finding` with the file, line and column where the reason of it was written."""
        if finding.file not in ("", self.plan.environment):
            return finding
        if finding.origin == "engine" and finding.object:
            written = self._policies.get((finding.object.kind, finding.object.name))
            if written:
                line, column = written.position(finding.path)
                return replace(finding, file=written.file, line=line, column=column)
        if finding.rule == UNKNOWN_MINOR:
            finding = replace(finding, path="cluster.kubernetesVersion")
        line, column = self._position(finding) if not finding.object else (0, 0)
        return replace(finding, file=str(self.path), line=line, column=column)

    def _position(self, finding: PolicyFinding) -> tuple[int, int]:
        """Position of a path in the environment file; (0, 0) if the finding has no such path."""
        loc = tuple(int(index) if index else key for key, index in _PART.findall(finding.path))
        data = self.loaded.source.data
        return self.loaded.source.place(loc) if loc and loc[0] in data else (0, 0)


def read_environments(paths: Iterable[Path]) -> tuple[list[ReadEnvironment], list[PolicyFinding]]:
    """The environments that can be judged, and what is wrong with the others. Raises UsageError."""
    readable: list[ReadEnvironment] = []
    problems: list[PolicyFinding] = []
    for path in paths:
        try:
            readable.append(_read(path))
        except UsageError:
            raise
        except GpupoolError as error:
            problems += _refused(error, path)
    return readable, problems


def _refused(error: GpupoolError, path: Path) -> tuple[PolicyFinding, ...]:
    """What keeps the environment at `path` from being judged, at the file that it is about."""
    match error:
        case SpecError():
            return unreadable(error.findings)
        case PolicyFileError():
            return unreadable([error.finding])
    return (PolicyFinding("deny", UNREADABLE, str(error), origin="document", file=str(path)),)


def judge(environment: ReadEnvironment, extra: Sequence[Document]) -> Report:
    """By its own policies, by `extra`, and by the rules over its whole bundle."""
    report = policy_gate.judge(environment.plan, date.today(), extra, bundle=environment.bundle)
    return replace(report, findings=tuple(map(environment.placed, report.findings)))


def judge_together(environments: Sequence[ReadEnvironment]) -> Report:
    """What only several environments together show."""
    return Report(
        tuple(policy_gate.judge_together([environment.plan for environment in environments])), 0, 0, {}
    )


def without_own(objects: Iterable[Document], environments: Iterable[ReadEnvironment]) -> list[Document]:
    """`objects` without those that an environment consists of: a rendering that is judged with it anyway."""
    own = {
        _key(document): document.body for environment in environments for document in environment.documents
    }
    return [document for document in objects if own.get(_key(document)) != document.body]


def _read(path: Path) -> ReadEnvironment:
    loaded = load(path)
    plan = resolve(loaded)
    return ReadEnvironment(path, loaded, plan, generate(plan))


def _named(document: Document) -> tuple[str, str]:
    metadata = document.body.get("metadata") or {}
    return str(document.body.get("kind")), str(metadata.get("name"))


def _key(document: Document) -> tuple[object, ...]:
    metadata = document.body.get("metadata") or {}
    return document.body.get("apiVersion"), metadata.get("namespace"), *_named(document)
