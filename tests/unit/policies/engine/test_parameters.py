"""Which objects a binding hands to its policy (the real server is asked in tests/cluster/policies)."""

from __future__ import annotations

from typing import Any

import pytest

from policies.engine.documents import from_bodies
from policies.engine.kinds import Kinds
from policies.engine.parameters import NOT_FOUND, ParameterError, Parameters
from policies.engine.policy import Binding, MatchResources, ParamRef, Policy
from policies.engine.selectors import read_selector

DOCUMENT = from_bodies([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "any"}}], "f")[0]


def policy(kind: tuple[str, str] | None = ("v1", "ConfigMap")) -> Policy:
    return Policy("p", DOCUMENT, MatchResources(), (), (), (), (), True, kind, {})


def binding(name: str = "", namespace: str = "", labels: Any = None, deny: bool = False) -> Binding:
    selector = read_selector({"matchLabels": labels})[0] if labels is not None else None
    reference = ParamRef(name, namespace, selector, deny)
    return Binding("b", DOCUMENT, "p", MatchResources(), ("Deny",), reference)


def params(name: str, namespace: str = "default", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


GIVEN = Parameters(
    [params("a", set="x"), params("b", set="x"), params("a", set="x"), params("a", "team")], Kinds.builtin()
)


@pytest.mark.parametrize(
    ("bound", "namespace", "expected"),
    [
        (binding("a", "default"), "team", ["a"]),
        (binding("a"), "team", ["a"]),
        (binding("b"), "team", []),
        (binding(namespace="default", labels={"set": "x"}), "", ["a", "b"]),
        (binding(namespace="default", labels={"set": "y"}), "", []),
    ],
)
def test_found(bound: Binding, namespace: str, expected: list[str]) -> None:
    found = GIVEN.of(policy(), bound, namespace)
    assert [body and body["metadata"]["name"] for body in found] == expected, (
        "each once, however often it is given"
    )


def test_none_wanted() -> None:
    assert GIVEN.of(policy(None), binding("a"), "team") == [None]


def test_missing() -> None:
    with pytest.raises(ParameterError, match=NOT_FOUND):
        GIVEN.of(policy(), binding("none", "default", deny=True), "team")


def test_namespaced_for_a_cluster_object() -> None:
    with pytest.raises(ParameterError, match="cannot use namespaced paramRef"):
        GIVEN.of(policy(), binding("a"), "")


def test_a_namespace_for_a_cluster_scoped_kind() -> None:
    with pytest.raises(ParameterError, match=r"paramRef\.namespace must not be provided"):
        GIVEN.of(policy(("v1", "Node")), binding("a", "default"), "")


def test_unknown_kinds() -> None:
    said = GIVEN.unknown_kind(policy(("example.com/v1", "Limit")))
    assert said is not None
    assert said.endswith("'example.com/v1, Kind=Limit'")
    assert GIVEN.unknown_kind(policy()) is None
