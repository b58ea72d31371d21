"""Judging what `policy check` is pointed at: manifests as one bundle, each environment by its plan.

Reads, hands over to the engine and gathers the reports; evaluates and prints nothing itself.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from cli.policy_outputs import UNMATCHED, Check, Output, relative, write
from cli.policy_progress import patient_progress
from cli.policy_targets import (
    STDIN_NAME,
    Targets,
    default_policies,
    is_environment,
    policy_files,
    read_manifests,
    sort_targets,
)
from gpupool.findings import UsageError
from policies.engine.outcome import PolicyFinding, Report

if TYPE_CHECKING:
    from gpupool.findings import Finding
    from gpupool.plan import Plan
    from policies.engine.documents import Document

POLICY = "ValidatingAdmissionPolicy"
UNREADABLE = "unreadable"
"""The rule under which files that can't be read are reported."""


class Operation(StrEnum):
    """The operations of a request that can be judged offline."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class Question:
    """What the command line asked for."""

    targets: tuple[str, ...]
    policies: tuple[Path, ...] = ()
    user: str | None = None
    groups: tuple[str, ...] = ()
    operation: Operation = Operation.CREATE


def answer(question: Question, output: Output) -> int:
    """Judge, print, and say the exit code: 1 when anything is denied or can't be read."""
    # Next to nothing of a check is cyclic garbage, and looking for it takes a tenth of the time.
    gc.disable()
    try:
        check = run(question)
        write(check, output)
    finally:
        gc.enable()
    return int(check.report.denied)


def run(question: Question) -> Check:
    """Judge every target. Raises UsageError for targets that do not exist."""
    started = time.monotonic()
    targets = sort_targets(question.targets)
    extra, unread = _read_policies(question.policies)
    found = _Found([Report(tuple(unread), 0, 0, {})], [relative(str(path)) for path in question.policies])
    environments = list(targets.environments)
    with patient_progress("policy check") as tell:
        if targets.manifests or targets.stdin:
            tell("reading manifests")
            documents, problems = read_manifests(targets)
            found.reports.append(Report(_unread(problems), 0, 0, {}))
            environments += _files_of(filter(is_environment, documents))
            objects = [document for document in documents if not is_environment(document)]
            if not (documents or problems):
                raise UsageError(
                    f"{', '.join(question.targets)}: nothing to judge; name what holds manifests"
                )
            if objects:
                tell(f"judging {len(objects):,} objects")
                _judge_manifests(objects, extra, targets, question, found)
        if environments and question != replace(question, user=None, groups=(), operation=Operation.CREATE):
            raise UsageError("--user, --group and --operation are for manifests; `up` creates an environment")
        for path in dict.fromkeys(environments):
            tell(f"judging {path.stem}")
            found.reports.append(_judge_environment(path, extra))
            found.sources.append(relative(str(path)))
        if len(environments) > 1:
            found.reports.append(_judge_together(environments))
    sources = tuple(dict.fromkeys(found.sources))
    return Check(_gather(found.reports), question.targets, sources, time.monotonic() - started)


@dataclass(frozen=True, slots=True)
class _Found:
    """What has been found so far."""

    reports: list[Report]
    sources: list[str]
    """Where policies came from."""


def _files_of(environments: Iterable[Document]) -> list[Path]:
    """The files of environments that were met among manifests; each is read again, as the other verbs do."""
    files = [Path(document.file) for document in environments]
    if Path(STDIN_NAME) in files:
        raise UsageError("standard input: holds an environment; name its file instead")
    return files


def _read_policies(paths: Iterable[Path]) -> tuple[list[Document], Sequence[PolicyFinding]]:
    """The documents of --policies. Raises UsageError where there is nothing."""
    from policies.engine.documents import read_files

    files: list[Path] = []
    for path in paths:
        found = policy_files(path) if path.exists() else []
        if not found:
            raise UsageError(f"--policies {path}: no such file, or no *.yaml in the folder")
        files += found
    if not files:
        return [], ()
    documents, problems = read_files(files)
    return documents, _unread(problems)


def _policies_for(
    documents: Sequence[Document], extra: list[Document], targets: Targets
) -> list[tuple[list[Document], list[str]]]:
    """What manifests are judged by besides the policies among them, and where those come from.

    One item for each environment that was named beside them: its policies with its parameters and namespaces,
    as the cluster would have them. Without one: the given policies, or the shipped ones without parameters.
    """
    from policies.engine.documents import read_files

    own = list(dict.fromkeys(_origin(document, targets) for document in documents if _is_policy(document)))
    if targets.environments:
        from infra.policy_gate import documents_of

        plans = [plan for path in targets.environments if not isinstance(plan := _plan(path), Report)]
        return [([*documents_of(plan), *extra], own) for plan in plans]
    if own or any(_is_policy(document) for document in extra):
        return [(extra, own)]
    files = default_policies()
    defaults, _ = read_files(files)
    folders = [relative(str(folder)) for folder in dict.fromkeys(path.parent for path in files)]
    return [([*defaults, *extra], folders)]


def _origin(document: Document, targets: Targets) -> str:
    """The target that a document came with."""
    path = Path(document.file)
    found = next((target for target in targets.manifests if path.is_relative_to(target)), path)
    return relative(str(found))


def _is_policy(document: Document) -> bool:
    return document.body.get("kind") == POLICY


def _judge_manifests(
    objects: list[Document], extra: list[Document], targets: Targets, question: Question, found: _Found
) -> None:
    from policies.engine.check import check
    from policies.engine.identity import identity
    from policies.engine.redaction import without_secrets

    user = identity(question.user or "", question.groups)
    given = bool(extra) or any(map(_is_policy, objects))  # ours have been held to the schemas already
    for policies, sources in _policies_for(objects, extra, targets):
        report = check(objects, policies=policies, user=user, operation=question.operation.value, typed=given)
        found.reports.append(without_secrets(report, [*objects, *policies]))
        found.sources.extend(sources)


def _plan(path: Path) -> Plan | Report:
    """The environment's plan, or what keeps it from being one."""
    from gpupool.findings import SpecError
    from gpupool.resolve import read_plan

    try:
        return read_plan(str(path))
    except SpecError as error:
        return Report(_unread(error.findings), 0, 0, {})


def _judge_environment(path: Path, extra: Sequence[Document]) -> Report:
    """An environment's own policies, those of --policies, and the rules over its whole bundle."""
    from datetime import date

    from infra.policy_gate import judge

    plan = _plan(path)
    if isinstance(plan, Report):
        return plan
    report = judge(plan, date.today(), extra)
    # An environment's manifests were never text: the place to look at is the file that they follow from.
    placed = (
        replace(finding, file=str(path)) if finding.file in ("", plan.environment) else finding
        for finding in report.findings
    )
    return replace(report, findings=tuple(placed))


def _judge_together(paths: Iterable[Path]) -> Report:
    """What only several environments together show. Those that can't be read have said so themselves."""
    from infra.policy_gate import judge_together

    plans = [plan for path in dict.fromkeys(paths) if not isinstance(plan := _plan(path), Report)]
    return Report(tuple(judge_together(plans)), 0, 0, {})


def _unread(problems: Iterable[Finding]) -> tuple[PolicyFinding, ...]:
    return tuple(
        PolicyFinding(
            level="deny",
            rule=UNREADABLE,
            message=problem.message,
            origin="document",
            file=problem.file,
            line=problem.line,
            column=problem.column,
            path=problem.path,
            fix=problem.hint,
        )
        for problem in problems
    )


def _gather(reports: Sequence[Report]) -> Report:
    """All reports as one. A policy that matched something anywhere is not one that matched nothing."""
    matched: dict[str, int] = {}
    for report in reports:
        for name, count in report.matched.items():
            matched[name] = matched.get(name, 0) + count
    findings = [
        finding
        for report in reports
        for finding in report.findings
        if not (finding.rule == UNMATCHED and finding.object and matched.get(finding.object.name))
    ]
    return Report(
        tuple(findings),
        sum(report.objects for report in reports),
        sum(report.evaluations for report in reports),
        matched,
    )
