"""Judging what `policy check` is pointed at: manifests as one bundle, each environment by its plan.

Reads, calls the engine and collects the reports; evaluates nothing itself. What only environments need is
in `gpupool.policy.environments`, and imported for them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from gpupool.findings import UsageError, relative
from gpupool.policy.result import UNMATCHED, Check, is_idle
from gpupool.policy.targets import (
    STDIN_NAME,
    Targets,
    default_policies,
    is_environment,
    kinds_in,
    labelled_namespace,
    policy_files,
    read_manifests,
    sort_targets,
)
from gpupool.policy.unreadable import unreadable
from vapcheck import Document, PolicyFinding, Problem, Report, read_files

if TYPE_CHECKING:
    from gpupool.policy.environments import ReadEnvironment
    from vapcheck import ValidationAction

POLICY = "ValidatingAdmissionPolicy"


class Operation(StrEnum):
    """The operations of a request that can be judged offline."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class Bind(StrEnum):
    """The actions with which policies without a binding can be judged."""

    deny = "deny"
    warn = "warn"
    audit = "audit"


_ACTIONS: dict[Bind, ValidationAction] = {Bind.deny: "Deny", Bind.warn: "Warn", Bind.audit: "Audit"}


@dataclass(frozen=True, slots=True)
class Question:
    """What the command line asked for."""

    targets: tuple[str, ...]
    policies: tuple[Path, ...] = ()
    user: str | None = None
    groups: tuple[str, ...] = ()
    operation: Operation = Operation.CREATE
    namespace: str | None = None
    """Of objects that name none."""
    namespace_labels: tuple[str, ...] = ()
    """Of that namespace, each as KEY=VALUE."""
    bind: Bind | None = None
    uid: str | None = None
    extra: tuple[str, ...] = ()
    """What request.userInfo.extra has, each as KEY=VALUE."""
    subresource: str | None = None
    """What is asked for in place of the objects, as pods/exec."""
    kubernetes: str | None = None
    """The version of the cluster that manifests are for; None for the environment's, or the newest known."""

    @property
    def is_about_manifests(self) -> bool:
        """Whether it says more than an environment can be asked."""
        return self != Question(self.targets, self.policies)


def run(question: Question, notify: Callable[[str], None]) -> Check:
    """Judge every target; `notify` takes the name of each step. Raises UsageError for targets that do not
    exist or hold nothing to judge.

    Manifests are judged as one bundle, and once for each environment that is named beside them; environments
    by what they generate. An environment that is met among manifests, as in a folder, is judged by itself:
    the manifests are not judged by its policies.
    """
    started = time.monotonic()
    if question.subresource and question.operation is not Operation.CREATE:
        raise UsageError("--operation follows from --subresource; remove it")
    targets = sort_targets(question.targets)
    given = _read_policies(question.policies)
    gathered = _Gathered(
        [Report(given.problems, 0, 0, {})], [relative(str(path)) for path in question.policies]
    )
    notify("reading")
    documents, problems = read_manifests(targets, meanwhile=_import_engine)
    gathered.reports.append(Report(unreadable(problems), 0, 0, {}))
    paths = dict.fromkeys([*targets.environments, *_files_of(filter(is_environment, documents))])
    if paths and question.is_about_manifests:
        raise UsageError(
            "--user, --user-uid, --user-extra, --group, --operation, --subresource, --namespace, "
            "--namespace-labels, --kubernetes-version and --bind apply only to manifests, not "
            "to environments"
        )
    environments: list[ReadEnvironment] = []
    if paths:
        from gpupool.policy import environments as environment_files

        environments, refused = environment_files.read_environments(paths)
        gathered.reports.append(Report(tuple(refused), 0, 0, {}))
    named = [environment for environment in environments if environment.path in targets.environments]
    objects = [document for document in documents if not is_environment(document)]
    if named:
        objects = environment_files.without_own(objects, named)
    if objects and (named or not targets.environments):
        notify(f"checking {len(objects):,} objects")
        _judge_manifests(objects, _judged_by(objects, given, named, targets, question), question, gathered)
    for environment in environments:
        notify(f"checking {environment.path.stem}")
        gathered.reports.append(environment_files.judge(environment, given.documents))
        gathered.sources.append(relative(str(environment.path)))
    if len(environments) > 1:
        gathered.reports.append(environment_files.judge_together(environments))
    sources = tuple(dict.fromkeys(gathered.sources))
    return Check(_merged(gathered.reports), question.targets, sources, time.monotonic() - started)


@dataclass(frozen=True, slots=True)
class _Gathered:
    """What has been found so far."""

    reports: list[Report]
    sources: list[str]
    """Where policies came from."""


@dataclass(frozen=True, slots=True)
class _Policies:
    """What objects are judged by, besides the policies among them."""

    documents: list[Document]
    """Policies and their parameters."""
    problems: tuple[PolicyFinding, ...] = ()
    """Files of them that can't be read."""
    sources: tuple[str, ...] = ()
    """Where they came from, as the user would name it."""
    environment: ReadEnvironment | None = None
    """The environment that owns them, if any."""


def _files_of(environments: Iterable[Document]) -> list[Path]:
    """The files of environments that were met among manifests; each is read again, as the other verbs do."""
    files = [Path(document.file) for document in environments]
    if Path(STDIN_NAME) in files:
        raise UsageError("standard input contains an environment; name its file instead")
    return files


def _read_policies(paths: Iterable[Path]) -> _Policies:
    """What --policies names. Raises UsageError where there is nothing."""
    documents: list[Document] = []
    problems: list[Problem] = []
    for path in paths:
        files = policy_files(path) if path.exists() else []
        if not files:
            raise UsageError(f"--policies {path}: no such file, or no *.yaml in the folder")
        read, unread = read_files(files, met=path.is_dir())
        documents += read
        problems += unread
    return _Policies(documents, unreadable(problems))


def _judged_by(
    objects: Sequence[Document],
    given: _Policies,
    environments: Sequence[ReadEnvironment],
    targets: Targets,
    question: Question,
) -> list[_Policies]:
    """What manifests are judged by besides the policies among them. They are judged once by each item.

    One item for each environment that was named beside them: its policies with its parameters and namespaces,
    as the cluster would have them. Without one: the policies that --policies names (`given`), or the shipped
    ones without parameters if there is no policy there or among the manifests. Raises UsageError where
    --policies names files without a policy.
    """
    own = tuple(dict.fromkeys(_origin(document, targets) for document in objects if _is_policy(document)))
    if environments:
        return [
            _Policies([*environment.documents, *given.documents], sources=own, environment=environment)
            for environment in environments
        ]
    if own or any(map(_is_policy, given.documents)):
        return [_Policies(given.documents, sources=own)]
    if question.policies and all(problem.level != "deny" for problem in given.problems):
        raise UsageError(
            f"no {POLICY} in {', '.join(map(str, question.policies))}; name a folder or file of policies, "
            "or omit --policies to use those that ship with gpupool"
        )
    files = default_policies()
    defaults, problems = read_files(files)
    folders = tuple(relative(str(folder)) for folder in dict.fromkeys(path.parent for path in files))
    return [_Policies([*defaults, *given.documents], unreadable(problems), folders)]


def _origin(document: Document, targets: Targets) -> str:
    """The target that a document came with."""
    path = Path(document.file)
    target = next((target for target in targets.manifests if path.is_relative_to(target)), path)
    return relative(str(target))


def _is_policy(document: Document) -> bool:
    return document.body.get("kind") == POLICY


def _import_engine() -> None:
    """Import what judging needs, which takes as long as reading a thousand objects."""
    import vapcheck.judging.check
    import vapcheck.judging.redaction
    import vapcheck.policy.type_check  # noqa: F401


def _judge_manifests(
    objects: list[Document], judged_by: Iterable[_Policies], question: Question, gathered: _Gathered
) -> None:
    """Judge `objects` as one bundle by each of `judged_by`, and add what is found to `gathered`."""
    from vapcheck import check, identity, read_extra, without_secrets

    try:
        extra = read_extra(question.extra)
    except ValueError as error:
        raise UsageError(f"--user-extra {error}: not a pair; write KEY=VALUE") from None
    user = identity(question.user or "", question.groups, question.uid or "", extra)
    context = labelled_namespace(question.namespace, question.namespace_labels, objects)
    # The shipped policies have been checked against the schemas already.
    typed = bool(question.policies) or any(map(_is_policy, objects))
    for policies in judged_by:
        environment = policies.environment
        report = check(
            objects,
            policies=[*policies.documents, *context],
            kinds=kinds_in(
                environment.plan.cluster.kubernetes_version if environment else question.kubernetes
            ),
            user=user,
            operation=question.operation.value,
            typed=typed,
            namespace=question.namespace or "",
            bind=_ACTIONS[question.bind] if question.bind else None,
            subresource=question.subresource or "",
        )
        report = without_secrets(report, [*objects, *policies.documents])
        findings = report.findings
        if environment:
            findings = tuple(map(environment.placed, findings))
        gathered.reports.append(replace(report, findings=(*policies.problems, *findings)))
        gathered.sources.extend(policies.sources)


def _merged(reports: Sequence[Report]) -> Report:
    """All reports as one. A policy that matched anything anywhere is not reported as unmatched; of one that
    did not, the report in which an object came furthest says why. What is wrong with a policy is reported
    once."""
    matched = Counter[str]()
    furthest: dict[str, int] = {}
    for report in reports:
        matched.update(report.matched)
        for name, reach in report.reached.items():
            furthest[name] = max(reach, furthest.get(name, 0))
    objects = sum(report.objects for report in reports)
    findings: list[PolicyFinding] = []
    reported: set[tuple[object, ...]] = set()
    explained: set[str] = set()
    for reached, finding in ((report.reached, row) for report in reports for row in report.findings):
        name = finding.object.name if finding.object else ""
        if is_idle(finding) and (not objects or matched[name]):
            continue
        if finding.rule == UNMATCHED:
            if name in explained or reached.get(name, 0) < furthest.get(name, 0):
                continue
            explained.add(name)
        if finding.origin == "engine":  # about a policy, which is in more than one report
            key = (finding.rule, finding.object, finding.file, finding.line, finding.path, finding.message)
            if key in reported:
                continue
            reported.add(key)
        findings.append(finding)
    return Report(tuple(findings), objects, sum(report.evaluations for report in reports), matched)
