"""Which requests match rules take, rule by rule (tests/cluster/policies asks the real server)."""

from __future__ import annotations

from typing import Any

import pytest

from vapcheck import Kinds
from vapcheck.judging.matching import Matcher, is_exempt
from vapcheck.judging.request import Request
from vapcheck.policy.model import MatchResources, Rule
from vapcheck.policy.selectors import read_selector
from vapcheck.server.kinds import Resource

KINDS = Kinds.builtin()


def match(
    criteria: MatchResources, asked: Request, namespaces: dict[str, dict[str, str]] | None = None
) -> Resource | None:
    return Matcher(KINDS, namespaces or {}).match(criteria, asked)


def rule(resources: str = "pods", **more: Any) -> Rule:
    split = tuple((res, sub) for res, _, sub in (item.partition("/") for item in resources.split()))
    return Rule(
        operations=frozenset(more.get("operations", "*").split()),
        groups=frozenset([more.get("group", "")]),
        versions=frozenset([more.get("version", "v1")]),
        resources=split,
        scope=more.get("scope", "*"),
        resource_names=frozenset(more.get("names", "").split()),
    )


def request(kind: str = "Pod", api_version: str = "v1", **more: Any) -> Request:
    resource = KINDS.resource(api_version, kind)
    assert resource is not None
    body: dict[str, Any] = {"metadata": {"name": "a", "labels": more.get("labels", {})}}
    namespace = more.get("namespace", "team" if resource.namespaced else "")
    old = more.get("old")
    return Request(
        more.get("operation", "CREATE"),
        resource,
        more.get("name", "a"),
        namespace,
        body,
        {"metadata": {"labels": old}} if old is not None else None,
        subresource=more.get("subresource", ""),
    )


@pytest.mark.parametrize(
    ("rules", "asked", "expected"),
    [
        (rule(), request(), True),
        (rule(operations="UPDATE"), request(), False),
        (rule(operations="CREATE UPDATE"), request(operation="UPDATE"), True),
        (rule(group="apps"), request(), False),
        (rule(group="*"), request(), True),
        (rule(version="v2"), request(), False),
        (rule("services"), request(), False),
        (rule("*"), request(), True),
        (rule("*"), request(subresource="exec"), False),
        (rule("pods/*"), request(subresource="exec"), True),
        (rule("pods/exec"), request(subresource="exec"), True),
        (rule("*/exec"), request(subresource="exec"), True),
        (rule("pods/exec"), request(), False),
        (rule(names="a b"), request(), True),
        (rule(names="b"), request(), False),
        (rule(names="a"), request(name=""), False),
        (rule(scope="Namespaced"), request(), True),
        (rule(scope="Cluster"), request(), False),
        (rule("nodes", scope="Cluster"), request("Node"), True),
        (rule("nodes", scope="Namespaced"), request("Node"), False),
        (rule("namespaces", scope="Cluster"), request("Namespace", namespace="a"), True),
        (rule("namespaces", scope="Namespaced"), request("Namespace", namespace="a"), False),
    ],
)
def test_rules(rules: Rule, asked: Request, expected: bool) -> None:
    assert (match(MatchResources(rules=(rules,)), asked) is not None) is expected


def test_no_rules_match_everything() -> None:
    assert match(MatchResources(), request())


def test_excluded() -> None:
    criteria = MatchResources(rules=(rule("*"),), exclude=(rule("pods"),))
    assert match(criteria, request()) is None
    assert match(criteria, request("Service"))


def test_equivalent_versions() -> None:
    hpas = rule("horizontalpodautoscalers", group="autoscaling", version="v2")
    asked = request("HorizontalPodAutoscaler", "autoscaling/v1")
    found = match(MatchResources(rules=(hpas,)), asked)
    assert found is not None
    assert found.version == "v2"
    assert match(MatchResources(rules=(hpas,), equivalent=False), asked) is None


@pytest.mark.parametrize(
    ("selector", "asked", "namespaces", "expected"),
    [
        ({"matchLabels": {"tier": "gold"}}, request(), {"team": {"tier": "gold"}}, True),
        ({"matchLabels": {"tier": "gold"}}, request(), {"team": {}}, False),
        ({"matchLabels": {"tier": "gold"}}, request("Node"), {}, True),
        (
            {"matchLabels": {"tier": "gold"}},
            request("Namespace", namespace="a", labels={"tier": "gold"}),
            {},
            True,
        ),
        (
            {"matchLabels": {"tier": "gold"}},
            request("Namespace", namespace="a"),
            {"a": {"tier": "gold"}},
            False,
        ),
        ({"matchLabels": {"kubernetes.io/metadata.name": "team"}}, request(), {}, True),
    ],
)
def test_namespace_selector(
    selector: Any, asked: Request, namespaces: dict[str, dict[str, str]], expected: bool
) -> None:
    criteria = MatchResources(namespace_selector=read_selector(selector)[0])
    assert (match(criteria, asked, namespaces) is not None) is expected


def test_object_selector_takes_either_side() -> None:
    criteria = MatchResources(object_selector=read_selector({"matchLabels": {"a": "b"}})[0])
    assert match(criteria, request(labels={"a": "b"}))
    assert match(criteria, request(labels={}, old={"a": "b"}, operation="UPDATE"))
    assert match(criteria, request(labels={}, old={}, operation="UPDATE")) is None


def test_admission_configuration_is_exempt() -> None:
    policy = KINDS.resource("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
    assert policy is not None
    assert is_exempt(policy)
    assert not is_exempt(request().resource)
