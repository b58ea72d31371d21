"""What policy says about an environment, before anything of it is sent.

The one place that judges an environment's manifests: `gpupool preview` and `up`, the Pulumi program and
`gpupool policy check ENV` ask here.
It needs no cluster and no Pulumi. The engine is imported when something is judged, because other verbs start
without it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from gpupool.environment.plan.model import Plan
from gpupool.environment.spec.load import Loaded
from gpupool.findings import Category, Finding, GpupoolError
from gpupool.findings.of_policy import policy_finding
from gpupool.findings.terminal import in_sentence
from gpupool.generators import delivery, generate
from gpupool.generators.manifest import Bundle

if TYPE_CHECKING:
    from gpupool.policy import rules
    from vapcheck import Compiler, Document, Kinds, PolicyFinding, Report


class PolicyRefusalError(GpupoolError):
    """Policy denies an environment. `report` has everything that was found, warnings included."""

    def __init__(self, environment: str, report: Report) -> None:
        self.report = report
        self.findings = shown(report)
        denied = sum(finding.category is Category.deny for finding in self.findings)
        lines = [
            *map(describe, self.findings),
            f"policy refuses {environment}: {denied} denial{'s' if denied != 1 else ''}; the expressions and "
            f"their values: gpupool policy check {environment}",
        ]
        super().__init__("\n".join(lines))


def passed(environment: str, plan: Plan, bundle: Bundle) -> tuple[Finding, ...]:
    """Judge what `plan` generates, as of today: what policy warns of. Raises PolicyRefusalError where it
    denies anything. `environment` is what the user called it."""
    report = judge(plan, datetime.now(UTC).date(), bundle=bundle)
    require(environment, report)
    return shown(report)


def judge(
    plan: Plan,
    today: date,
    extra_policies: Sequence[Document] = (),
    *,
    bundle: Bundle | None = None,
    compiler: Compiler | None = None,
) -> Report:
    """Judge what `plan` amounts to: by the policies among its manifests and `extra_policies`, and by the
    rules over the whole bundle.

    `bundle` is what `plan` generates, where the caller has it already, and `compiler` one that several plans
    are judged with; by `today` waivers expire.
    Patches of objects that others own are not judged: their current content is unknown here (the cluster's
    own admission sees them, in a preview too). Helm releases are not judged object by object.
    """
    from gpupool.policy import rules
    from vapcheck import check, without_secrets

    bundle = bundle or generate(plan)
    documents = documents_of(plan, bundle)
    report = check(documents, policies=extra_policies, kinds=_kinds_of(documents, plan), compiler=compiler)
    policy_findings = (
        *report.findings,
        *rules.check_bundle(_whole(plan, bundle)),
        *_expired_waivers(plan, today),
        *_ended_reservations(plan, today),
    )
    return without_secrets(
        dataclasses.replace(report, findings=policy_findings), [*documents, *extra_policies]
    )


def _kinds_of(documents: Sequence[Document], plan: Plan) -> Kinds:
    """The kinds of the cluster's Kubernetes, and the custom ones of a bundle: those without a namespace can
    be in none."""
    from vapcheck import Kinds, namespace_of, resource_of

    known = Kinds.builtin(plan.cluster.kubernetes_version)
    bodies = [document.body for document in documents]
    return known.with_resources(
        dataclasses.replace(resource_of(body, known), namespaced=bool(namespace_of(body))) for body in bodies
    )


def documents_of(plan: Plan, bundle: Bundle) -> list[Document]:
    """What `plan` amounts to, as the engine takes it: policies, parameters and namespaces included."""
    from vapcheck import from_bodies

    bodies = [dict(manifest.body) for manifest in bundle if not manifest.patch]
    return from_bodies(bodies, plan.environment)


def judge_together(plans: Sequence[Plan]) -> list[PolicyFinding]:
    """What no single environment shows: an object or a node that two of them own."""
    from gpupool.policy import rules

    return rules.check_bundles([_whole(plan, generate(plan)) for plan in plans])


def beyond_limits(loaded: Loaded, plan: Plan, bundle: Bundle) -> list[Finding]:
    """Where the file makes an object larger than Kubernetes takes it, those of the delivering engine
    included. `bundle` is what `plan` generates."""
    from gpupool.policy.rules.object_limits import exceeded, section_of

    # Kustomize's own files have no name, and are sent to no server.
    wrappers = [body for body in delivery.wrappers(bundle).values() if "metadata" in body]
    whole = _whole(plan, bundle, wrappers)
    return [
        loaded.finding(
            section_of(violation, plan),
            f"{violation.object}: {violation.message}" if violation.object else violation.message,
            "write fewer or shorter entries, or split the environment in two",
            code="objects-within-limits",
        )
        for violation in exceeded(whole)
    ]


def _whole(plan: Plan, bundle: Bundle, wrappers: Iterable[Mapping[str, Any]] = ()) -> rules.ObjectSet:
    """The bundle as the rules take it, with the objects that tell an engine of it."""
    from gpupool.policy import rules

    patches = [manifest.body for manifest in bundle if manifest.patch]
    manifests = [*(manifest.body for manifest in bundle if not manifest.patch), *wrappers]
    releases = [
        rules.JudgedRelease(release.name, release.namespace, release.chart, release.values)
        for release in bundle.releases
    ]
    return rules.ObjectSet.of(plan.environment, manifests, patches=patches, releases=releases, plan=plan)


def _expired_waivers(plan: Plan, today: date) -> Iterator[PolicyFinding]:
    """A waiver holds in the cluster until it is removed, so its end must be reported here."""
    from vapcheck import PolicyFinding

    for number, waiver in enumerate(plan.policies.waivers):
        if waiver.expired(today):
            where = f"in namespace {waiver.namespace}" if waiver.namespace else "everywhere"
            yield PolicyFinding(
                level="deny",
                rule="expired-waiver",
                message=f"the waiver of {waiver.policy} {where} ended on {waiver.until.isoformat()} "
                f"(owner {waiver.owner}: {waiver.reason})",
                origin="waiver",
                path=f"policies.waivers[{number}].until",
                title="Waivers end",
                why="An exception that is not renewed has no responsible owner.",
                remediation=f"{waiver.owner} must renew it, or remove it and fix the violations.",
            )


def _ended_reservations(plan: Plan, today: date) -> Iterator[PolicyFinding]:
    """Nodes that the pool can't have any more. No denial: nothing in the cluster is wrong because of it."""
    from vapcheck import PolicyFinding

    for number, pool in enumerate(plan.pools):
        for reservation in pool.reserved:
            if reservation.until is not None and reservation.until.date() < today:
                yield PolicyFinding(
                    level="warn",
                    rule="reservation-ended",
                    message=f"{reservation.count} nodes of pool {pool.name} were reserved until "
                    f"{reservation.until:%Y-%m-%d %H:%M} UTC, and can no longer start",
                    origin="bundle",
                    path=f"pools[{number}].nodes.reserved",
                    title="Reservations end",
                    why="Quotas, cost and the pool's maximum still include an ended reservation.",
                    remediation="Remove it from the file and lower max, or add the new reservation.",
                )


def require(environment: str, report: Report) -> None:
    """Raise PolicyRefusalError where `report` denies anything. `environment` is what the user called it."""
    if report.denied:
        raise PolicyRefusalError(environment, report)


def shown(report: Report) -> tuple[Finding, ...]:
    """What is shown: denials first, then warnings. Audit findings are only recorded."""
    reported = [policy_finding(row) for row in report.findings if row.level != "audit"]
    return tuple(sorted(reported, key=lambda one: (one.severity.rank, one.code, one.object, one.path)))


def describe(finding: Finding) -> str:
    """A finding on one line: category, policy, object, what is wrong, what to do."""
    where = [f"{part}:" for part in (finding.object, finding.path) if part]
    todo = f"; {finding.remediation}" if finding.remediation else ""
    text = " ".join([f"{finding.category} {finding.code}:", *where, f"{finding.what}{todo}"])
    return in_sentence(" ".join(text.split()))
