"""Whether this account may do what `up` does, by access reviews, and the role that would let it.

Which rights these are is in `gpupool.adopt.doctor.needed_rights`. The server judges each by all its
authorizers; for roles, though, it counts only rights that come from RBAC (Kubernetes documentation, privilege
escalation prevention), so what a cloud's own authorizer allows may still be refused there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from gpupool.adopt.doctor.components import show
from gpupool.adopt.doctor.model import CheckResult, DoctorInput, result
from gpupool.adopt.doctor.needed_rights import EVERYTHING, Escalation, Right, escalations, helpful, needed
from gpupool.adopt.doctor.reasons import Reason
from gpupool.live.cluster.beforehand import may
from gpupool.live.cluster.kube_api import KubeApi

ROLE = "gpupool-up"
_RBAC = "rbac.authorization.k8s.io"
_AT_ONCE = 16
_SHOWN = 3
_ACCOUNT = "system:serviceaccount:"


def check(inputs: DoctorInput) -> Iterator[CheckResult]:
    """A result for each resource on which verbs are missing, and for each role that can't be made."""
    assert inputs.api is not None
    assert inputs.bundle is not None
    reviews = _Reviews(inputs.api)
    if reviews.allowed([EVERYTHING])[EVERYTHING]:
        yield result(inputs.user or "this account", Reason.RIGHTS_ALL)
        return
    inputs.notify("checking permissions")
    rights = needed(inputs.bundle)
    lacking = reviews.lacking(rights)
    roles = list(escalations(inputs.bundle))
    unmade = [escalation for escalation in roles if not reviews.may_make(escalation)]
    if not lacking and not unmade:
        yield result(inputs.user or "this account", Reason.RIGHTS_ENOUGH, count=len(rights) + len(roles))
    yield from _by_resource(lacking, Reason.RIGHTS_MISSING)
    for escalation in unmade:
        yield _unmade(escalation, reviews)
    for row in _by_resource(reviews.lacking(helpful(inputs.bundle)), Reason.RIGHTS_HELPFUL):
        yield replace(row, grants=())
    yield from _of_checks(inputs, reviews, frozenset(rights))
    if inputs.bundle.releases:
        yield _of_charts(inputs)


def _of_checks(inputs: DoctorInput, reviews: _Reviews, known: frozenset[Right]) -> Iterator[CheckResult]:
    """What `doctor` itself reads beyond what `up` does, check by check: without it that check is skipped."""
    for name, reads in inputs.reads.items():
        lacking = reviews.lacking(set(reads) - known)
        if lacking:
            resources = sorted({_full_name(right) for right in lacking})
            reads_of = f"list {' and '.join(resources)}"
            row = result(name, Reason.RIGHTS_TO_CHECK, reads=reads_of, env=inputs.env)
            yield replace(row, grants=tuple(lacking))


def _full_name(right: Right) -> str:
    return f"{right.resource}.{right.group}" if right.group else right.resource


class _Reviews:
    """Access reviews of one account, each right asked once."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._known: dict[Right, bool] = {}

    def allowed(self, rights: Iterable[Right]) -> Mapping[Right, bool]:
        """The server's verdict on each."""
        fresh = [right for right in dict.fromkeys(rights) if right not in self._known]
        with ThreadPoolExecutor(_AT_ONCE, "rights") as pool:
            self._known.update(zip(fresh, pool.map(self._review, fresh), strict=True))
        return self._known

    def lacking(self, rights: Iterable[Right]) -> list[Right]:
        """Those that are not allowed. First whether they are in all namespaces, which mostly answers it."""
        wanted = sorted(rights)
        everywhere = self.allowed(replace(right, namespace="") for right in wanted)
        rest = [right for right in wanted if not everywhere[replace(right, namespace="")]]
        here = self.allowed(rest)
        return [right for right in rest if not here[right]]

    def may_make(self, escalation: Escalation) -> bool:
        """Whether the role or binding may be made: by `escalate` or `bind`, or having all its rights."""
        if not self.lacking([escalation.instead]):
            return True
        return bool(escalation.held) and not self.lacking(escalation.held)

    def _review(self, right: Right) -> bool:
        resource, _, subresource = right.resource.partition("/")
        return may(
            self._api,
            group=right.group,
            resource=resource,
            subresource=subresource,
            verb=right.verb,
            namespace=right.namespace,
            name=right.name,
        )


def _by_resource(lacking: Iterable[Right], reason: Reason) -> Iterator[CheckResult]:
    """One result for each resource and set of verbs, with all namespaces that it is about."""
    verbs: dict[tuple[str, str, str], list[Right]] = defaultdict(list)
    for right in lacking:
        verbs[(right.group, right.resource, right.namespace)].append(right)
    rows: dict[tuple[str, str, tuple[str, ...]], list[tuple[str, list[Right]]]] = defaultdict(list)
    for (group, resource, namespace), rights in verbs.items():
        rows[(group, resource, tuple(right.verb for right in rights))].append((namespace, rights))
    for (group, resource, names), places in rows.items():
        namespaces = [namespace for namespace, _ in places if namespace]
        subject = f"{resource}.{group}" if group else resource
        where = _where(namespaces, all_of_them=len(namespaces) < len(places))
        row = result(subject, reason, verbs=", ".join(names), where=where, subject=subject)
        yield replace(row, grants=tuple(right for _, rights in places for right in rights))


def _where(namespaces: list[str], all_of_them: bool) -> str:
    if all_of_them:
        return "in the whole cluster"
    more = f" and {len(namespaces) - _SHOWN} more" if len(namespaces) > _SHOWN else ""
    return f"in {', '.join(namespaces[:_SHOWN])}{more}"


def _unmade(escalation: Escalation, asked: _Reviews) -> CheckResult:
    instead = escalation.instead
    example = next(iter(asked.lacking(escalation.held)), instead)
    row = result(
        str(escalation.manifest),
        Reason.RIGHTS_ESCALATION,
        verb=instead.verb,
        resource=instead.resource,
        role=instead.name,
        example=f"{example.verb} {_full_name(example)}",
    )
    return replace(row, grants=(instead,))


def _of_charts(inputs: DoctorInput) -> CheckResult:
    assert inputs.bundle is not None
    releases = inputs.bundle.releases
    commands = [" ".join(["helm", *show(release, ("template",))]) for release in releases]
    subject = ", ".join(f"chart {release.chart}" for release in releases)
    return result(subject, Reason.RIGHTS_OF_CHARTS, commands="; ".join(commands))


def grant(rights: Iterable[Right], user: str) -> tuple[Mapping[str, Any], ...]:
    """A ClusterRole with these rights and its binding to the user; nothing where there are none.

    In all namespaces, as most of these are made by `up` itself, and no role can be in them before.
    """
    rules = _rules({replace(right, namespace="") for right in rights})
    if not rules:
        return ()
    metadata = {"name": ROLE}
    role = {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}
    reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": ROLE}
    subject = {"apiGroup": _RBAC, "kind": "User", "name": user or "USER"}
    if user.startswith(_ACCOUNT):
        namespace, _, name = user.removeprefix(_ACCOUNT).partition(":")
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": reference,
        "subjects": [subject],
    }
    return role, binding


def _rules(rights: Iterable[Right]) -> list[dict[str, Any]]:
    """As few rules as say the same: resources of a group with the same verbs, and names alike, together."""
    verbs: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for right in rights:
        verbs[(right.group, right.resource, right.name)].add(right.verb)
    names: dict[tuple[str, str, tuple[str, ...]], set[str]] = defaultdict(set)
    for (group, resource, name), allowed in verbs.items():
        names[(group, resource, tuple(sorted(allowed)))].add(name)
    resources: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource, each), objects in names.items():
        limited = tuple(sorted(objects - {""})) if "" not in objects else ()
        resources[(group, each, limited)].append(resource)
    return [
        {
            "apiGroups": [group],
            "resources": sorted(plurals),
            **({"resourceNames": list(limited)} if limited else {}),
            "verbs": list(each),
        }
        for (group, each, limited), plurals in sorted(resources.items())
    ]
