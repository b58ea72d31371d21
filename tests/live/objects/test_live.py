"""Which fields differ: what the server rewrites is no difference, what somebody wrote is one."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.spec.load import environment_names
from gpupool.generators import generate
from gpupool.live.objects.changes import format_path
from gpupool.live.objects.live import differences
from gpupool.live.objects.managed_fields import managers
from gpupool.live.objects.ownership import Ownership
from vapcheck import Kinds
from vapcheck.server.admission_view import as_admitted

Object = dict[str, Any]


def thing(kind: str = "ResourceQuota", version: str = "v1", **parts: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x", "namespace": "y"}, **parts}


def paths(body: Object, live: Object) -> list[str]:
    return [format_path(difference.path) for difference in differences(body, live)]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"hard": {"cpu": "1000m"}}, {"hard": {"cpu": "1"}}),
        ({"hard": {"cpu": "1"}}, {"hard": {"cpu": "1", "pods": "5"}}),
        ({"hard": {"memory": "1024Mi"}}, {"hard": {"memory": "1Gi"}}),
        ({"hard": {"cpu": "1"}, "scopes": []}, {"hard": {"cpu": "1"}}),
    ],
)
def test_what_the_server_makes_of_it_is_the_same(wanted: Object, found: Object) -> None:
    assert paths(thing(spec=wanted), thing(spec=found)) == []


@pytest.mark.parametrize(
    ("wanted", "found", "path"),
    [
        ({"hard": {"cpu": "1"}}, {"hard": {"cpu": "2"}}, "spec.hard.cpu"),
        ({"hard": {"cpu": "1"}}, {"hard": {}}, "spec.hard.cpu"),
        ({"hard": {"cpu": "1"}}, {}, "spec.hard"),
        ({"scopes": []}, {"scopes": ["BestEffort"]}, "spec.scopes"),
    ],
)
def test_what_somebody_wrote_is_reported_at_its_path(wanted: Object, found: Object, path: str) -> None:
    assert paths(thing(spec=wanted), thing(spec=found)) == [path]


def test_a_false_that_the_server_leaves_out_is_no_difference_and_a_true_is() -> None:
    body = thing("PriorityClass", "scheduling.k8s.io/v1", value=1, globalDefault=False)
    assert paths(body, thing("PriorityClass", "scheduling.k8s.io/v1", value=1)) == []
    live = thing("PriorityClass", "scheduling.k8s.io/v1", value=1, globalDefault=True)
    assert paths(body, live) == ["globalDefault"]


def test_one_differing_item_of_a_list_is_reported_alone() -> None:
    rules = [{"verbs": ["get"]}, {"verbs": ["list"]}]
    changed = [{"verbs": ["get"]}, {"verbs": ["list", "delete"]}]
    made = thing("NodePool", "karpenter.sh/v1", spec={"rules": rules})
    assert paths(made, thing("NodePool", "karpenter.sh/v1", spec={"rules": changed})) == [
        "spec.rules[1].verbs"
    ]


def _network_policy(peer: Object, selector: Object, *managers: str) -> Object:
    """As the server keeps it: both fields are one value, regardless of the manager."""
    tree = {"f:spec": {"f:ingress": {}, "f:podSelector": {}, "f:policyTypes": {}}}
    spec = {"podSelector": selector, "policyTypes": ["Ingress"], "ingress": [{"from": [peer]}]}
    live = thing("NetworkPolicy", "networking.k8s.io/v1", spec=spec)
    if managers:
        live["metadata"]["managedFields"] = [{"manager": name, "fieldsV1": tree} for name in managers]
    return live


@pytest.mark.parametrize(
    ("peer", "selector", "reported"),
    [
        ({"podSelector": {}}, {}, []),
        ({"namespaceSelector": {}}, {}, ["spec.ingress[0].from[0]"]),
        ({"podSelector": {}, "namespaceSelector": {}}, {}, ["spec.ingress[0].from[0].namespaceSelector"]),
        ({"podSelector": {}}, {"matchLabels": {"no": "pod"}}, ["spec.podSelector.matchLabels"]),
    ],
)
def test_an_empty_selector_selects_everything_and_none_nothing(
    peer: Object, selector: Object, reported: list[str]
) -> None:
    body = _network_policy({"podSelector": {}}, {})
    assert paths(body, _network_policy(peer, selector, "gpupool", "kubectl-edit")) == reported


def test_an_added_peer_is_reported_alone() -> None:
    body = _network_policy({"podSelector": {}}, {})
    live = _network_policy({"podSelector": {}}, {}, "gpupool")
    live["spec"]["ingress"][0]["from"].append({"namespaceSelector": {}})
    (reported,) = differences(body, live)
    assert reported == (("spec", "ingress", 0, "from"), [], [{"namespaceSelector": {}}])


def test_a_narrowed_selector_is_reported_and_what_the_server_adds_to_it_is_not() -> None:
    ours = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    body = thing(
        "ValidatingAdmissionPolicyBinding",
        "admissionregistration.k8s.io/v1",
        spec={"policyName": "p", "matchResources": {"namespaceSelector": ours}},
    )
    tree = {"f:spec": {"f:policyName": {}, "f:matchResources": {"f:namespaceSelector": {}}}}
    live = _stored(body)
    live["metadata"]["managedFields"] = [{"manager": "gpupool", "fieldsV1": tree}]
    assert paths(body, live) == []
    live["spec"]["matchResources"]["namespaceSelector"]["matchLabels"] = {"no": "namespace"}
    assert paths(body, live) == ["spec.matchResources.namespaceSelector.matchLabels"]


def test_an_empty_text_that_was_removed_is_reported() -> None:
    body = thing("ConfigMap", data={"taints": "", "kept": "x"})
    assert paths(body, thing("ConfigMap", data={"kept": "x"})) == ["data.taints"]


def test_what_an_empty_field_of_a_custom_resource_gets_by_default_is_no_difference() -> None:
    ours = {"manager": "gpupool", "fieldsV1": {"f:spec": {"f:mig": {}}}}
    body = thing("ClusterPolicy", "nvidia.com/v1", spec={"mig": {}, "env": []})
    live = thing("ClusterPolicy", "nvidia.com/v1", spec={"mig": {"strategy": "single"}})
    live["metadata"]["managedFields"] = [ours]
    assert paths(body, live) == []


def _manifests() -> list[Any]:
    return [m for name in environment_names() for m in generate(read_plan(name)) if not m.patch]


MANIFESTS = _manifests()


@pytest.mark.parametrize("number", range(0, len(MANIFESTS), 7))
def test_a_manifest_does_not_differ_from_what_is_stored(number: int) -> None:
    body = dict(MANIFESTS[number].body)
    assert paths(body, _stored(body)) == []


def _stored(body: Object) -> Object:
    if Kinds.builtin().resource(body["apiVersion"], body["kind"]) is None:
        return deepcopy(body)
    return as_admitted(deepcopy(body), Kinds.builtin(), operation="UPDATE")


@given(st.data())
def test_any_changed_leaf_is_reported(data: st.DataObject) -> None:
    """Of any manifest of ours, whatever its kind."""
    body = dict(data.draw(st.sampled_from(MANIFESTS)).body)
    live = _stored(body)
    leaves = list(_leaves({key: body[key] for key in body if key not in ("apiVersion", "kind", "metadata")}))
    if not leaves:
        return
    path = data.draw(st.sampled_from(leaves))
    parent: Any = live
    for step in path[:-1]:
        if isinstance(parent, dict) and step not in parent:
            return  # left out by the server as empty
        parent = parent[step]
    if isinstance(parent, dict) and path[-1] not in parent:
        return
    parent[path[-1]] = "something-else"
    assert paths(body, live)


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in _leaves(inner, (*path, key))]
    if isinstance(value, list):
        return [leaf for place, inner in enumerate(value) for leaf in _leaves(inner, (*path, place))]
    return [path]


def test_who_set_a_field_and_who_added_one() -> None:
    ours = {"manager": "gpupool", "operation": "Apply", "time": "2026-01-01T00:00:00Z"}
    ours["fieldsV1"] = {"f:spec": {"f:hard": {"f:cpu": {}}}}  # type: ignore[assignment]
    theirs = {"manager": "kubectl-edit", "operation": "Update", "time": "2026-01-02T00:00:00Z"}
    theirs["fieldsV1"] = {"f:spec": {"f:hard": {"f:cpu": {}, "f:pods": {}}}}  # type: ignore[assignment]
    status = {"manager": "controller", "subresource": "status", "fieldsV1": {"f:status": {"f:used": {}}}}
    live = thing(spec={"hard": {"cpu": "2", "pods": "5"}}, status={"used": {}})
    live["metadata"]["managedFields"] = [ours, theirs, status]
    owners = Ownership(live)
    assert owners.of(("spec", "hard", "cpu"), "gpupool") == ("kubectl-edit", "2026-01-02T00:00:00Z")
    assert owners.of(("spec", "scopes"), "gpupool") == ("", "")
    body = thing(spec={"hard": {"cpu": "1"}})
    assert list(owners.added(body, frozenset({"gpupool"}))) == [(("spec", "hard", "pods"), "kubectl-edit")]
    assert managers(live) == {"gpupool", "kubectl-edit"}


def test_what_the_clusters_minor_drops_is_no_difference() -> None:
    """A field whose feature gate is off there can't be restored by applying it again."""
    containers = [{"name": "c", "image": "x"}]
    wanted = thing("Pod", spec={"containers": containers, "resources": {"limits": {"cpu": "1"}}})
    live = as_admitted(thing("Pod", spec={"containers": containers}), Kinds.builtin(), operation="UPDATE")
    assert [row.path for row in differences(wanted, live, "1.33")] == []
    assert [format_path(row.path) for row in differences(wanted, live, "1.34")] == ["spec.resources"]
