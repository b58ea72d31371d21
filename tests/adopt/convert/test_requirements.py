"""Requirements by exclusion: what is left is worked out, or the pool is left out; never a wider pool."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpupool.adopt.convert.convert import Conversion, convert
from gpupool.adopt.convert.documents import of_cluster
from gpupool.adopt.convert.draft import Choices
from gpupool.generators import generate
from tests.environment.plan.test_reserved import environment
from tests.environment_files import plan_of

TYPES = ("node.kubernetes.io/instance-type", "In", "g5.xlarge")
BOUGHT, ZONE = "karpenter.sh/capacity-type", "topology.kubernetes.io/zone"
ON_DEMAND = (BOUGHT, "In", "on-demand")
RESERVED = "it uses reserved capacity"


def pool(*requirements: tuple[str, ...]) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}
    rows = [{"key": key, "operator": operator, "values": list(v)} for key, operator, *v in requirements]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpus"},
        "spec": {
            "limits": {"nodes": "4"},
            "template": {"spec": {"nodeClassRef": reference, "requirements": rows}},
        },
    }


def converted(*objects: dict[str, Any]) -> Conversion:
    return convert(of_cluster(list(objects), "context test"), Choices(region="us-east-1"))


def nodes(*requirements: tuple[str, ...]) -> dict[str, Any]:
    (row,) = yaml.safe_load(converted(pool(*requirements)).text)["pools"]
    wanted: dict[str, Any] = row["nodes"]
    return wanted


@pytest.mark.parametrize(
    ("requirements", "share"),
    [
        ([(BOUGHT, "NotIn", "spot")], None),
        ([(BOUGHT, "NotIn", "on-demand", "reserved")], 1),
        ([(BOUGHT, "In", "spot", "on-demand"), (BOUGHT, "NotIn", "spot")], None),
        ([(BOUGHT, "Exists"), (BOUGHT, "NotIn", "on-demand")], 1),
    ],
)
def test_what_is_left_of_capacity_types(requirements: list[tuple[str, ...]], share: int | None) -> None:
    assert nodes(TYPES, *requirements).get("spotShare") == share


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["In", "NotIn"]),
            st.lists(st.sampled_from(["spot", "on-demand", "reserved"]), min_size=1, max_size=3),
        ),
        max_size=3,
    )
)
def test_no_pool_buys_what_was_excluded(rows: list[tuple[str, list[str]]]) -> None:
    result = converted(pool(TYPES, *((BOUGHT, operator, *values) for operator, values in rows)))
    left = {"spot", "on-demand", "reserved"}
    for operator, values in rows:
        left = {kind for kind in left if (kind in values) == (operator == "In")}
    if not result.pools:
        assert not left - {"reserved"}
        assert result.left_out
        return
    nodes = yaml.safe_load(result.text)["pools"][0]["nodes"]
    assert nodes.get("spotShare", 1) == 1
    bought = {"spot"} if "spotShare" in nodes else {*nodes.get("capacity", ("on-demand",))}
    assert bought == left - {"reserved"}


@pytest.mark.parametrize(
    ("requirements", "why"),
    [
        ([(BOUGHT, "In", "reserved")], RESERVED),
        ([("karpenter.k8s.aws/capacity-reservation-type", "In", "capacity-block")], RESERVED),
        ([(BOUGHT, "DoesNotExist")], "no capacity type meets"),
        ([(BOUGHT, "In", "spot"), (BOUGHT, "NotIn", "spot")], "no capacity type meets"),
        ([ON_DEMAND, (ZONE, "NotIn", "us-east-1a")], "the zones of its nodes"),
        ([ON_DEMAND, (ZONE, "In", "us-east-1a"), (ZONE, "NotIn", "us-east-1a")], "the zones of its nodes"),
        ([ON_DEMAND, ("topology.k8s.aws/zone-id", "In", "use1-az1")], "the zones of its nodes"),
        ([ON_DEMAND, ("topology.kubernetes.io/region", "NotIn", "us-west-2")], "the zones of its nodes"),
    ],
)
def test_what_cant_be_worked_out_makes_no_pool(requirements: list[tuple[str, ...]], why: str) -> None:
    result = converted(pool(TYPES, *requirements))
    assert result.pools == ()
    assert why in result.left_out[0]
    assert any(why in str(entry) for entry in result.leftovers)


@pytest.mark.parametrize("operator", ["NotIn", "Gt", "Lt", "DoesNotExist"])
def test_unknown_properties_of_machines(operator: str) -> None:
    """They can only narrow machines that are named; of others it is unknown which are left."""
    family = ("karpenter.k8s.aws/instance-family", "In", "g5")
    unknown = ("karpenter.k8s.aws/instance-network-bandwidth", operator, "9999")
    result = converted(pool(family, ON_DEMAND, unknown))
    assert result.pools == ()
    assert "can't resolve which machines it may start" in result.left_out[0]
    assert converted(pool(TYPES, ON_DEMAND, unknown)).pools == ("gpus",)


def test_zones_that_are_left() -> None:
    named, out = (ZONE, "In", "us-east-1a", "us-east-1b"), (ZONE, "NotIn", "us-east-1b")
    assert nodes(TYPES, ON_DEMAND, named, out)["zones"] == ["us-east-1a"]
    assert "zones" not in nodes(TYPES, ON_DEMAND, (ZONE, "Exists"))


def test_reserved_beside_others_without_a_reservation_is_listed() -> None:
    result = converted(pool(TYPES, (BOUGHT, "In", "reserved", "on-demand")))
    assert result.pools == ("gpus",)
    assert any(RESERVED in str(entry) for entry in result.leftovers)


BY_TYPE = "karpenter.k8s.aws/capacity-reservation-type"
BY_ID = "karpenter.k8s.aws/capacity-reservation-id"
BY_TAGS = {"tags": {"for": "gpus"}}


@pytest.mark.parametrize(
    ("requirements", "reserved", "capacity"),
    [
        ([], [{"tags": {"for": "gpus"}, "count": 1}, {"id": "cr-1", "count": 1}], ["spot", "on-demand"]),
        (
            [(BOUGHT, "NotIn", "spot")],
            [{"tags": {"for": "gpus"}, "count": 1}, {"id": "cr-1", "count": 1}],
            None,
        ),
        (
            [(BOUGHT, "In", "reserved")],
            [{"tags": {"for": "gpus"}, "count": 3}, {"id": "cr-1", "count": 1}],
            None,
        ),
        (
            [(BY_TYPE, "In", "default"), (BY_ID, "In", "cr-1")],
            [{"id": "cr-1", "count": 4}],
            None,
        ),
        ([ON_DEMAND], None, None),
    ],
)
def test_reservations_of_the_node_class_are_the_pools(
    requirements: list[tuple[str, ...]], reserved: list[dict[str, Any]] | None, capacity: list[str] | None
) -> None:
    terms = [BY_TAGS, {"id": "cr-1"}]
    own: dict[str, Any] = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass"}
    own |= {"metadata": {"name": "gpu"}, "spec": {"role": "nodes", "capacityReservationSelectorTerms": terms}}
    result = converted(pool(TYPES, *requirements), own)
    (row,) = yaml.safe_load(result.text)["pools"]
    assert row["nodes"].get("reserved") == reserved
    assert row["nodes"].get("capacity") == capacity
    listed = "\n".join(str(entry) for entry in result.leftovers)
    assert ("the end of the reservations of gpus" in listed) == (reserved is not None)
    assert ("capacityReservationSelectorTerms" in listed) == (reserved is None)


def test_what_is_rendered_is_one_pool_again() -> None:
    plan = plan_of(environment([{"id": "cr-1", "count": 2}], spotShare=0.5))
    bodies = [
        dict(manifest.body) for manifest in generate(plan) if manifest.kind in ("NodePool", "EC2NodeClass")
    ]
    (row,) = yaml.safe_load(converted(*bodies).text)["pools"]
    assert row["nodes"]["max"] == 4
    assert row["nodes"]["reserved"] == [{"id": "cr-1", "count": 2}]
    assert row["nodes"]["spotShare"] == 0.5


@pytest.mark.parametrize("term", [{"alias": {"a": "b"}}, {"id": ["x"]}, {"name": "a", "tags": {"a": 1}}, "x"])
def test_what_is_no_selector_of_images_is_no_crash(term: object) -> None:
    own = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "gpu"}}
    own["spec"] = {"role": "nodes", "amiSelectorTerms": [term]}
    result = converted(pool(TYPES, ON_DEMAND), own)
    assert any("amiSelectorTerms" in str(entry) for entry in result.leftovers)


def test_labels_of_karpenters_own_keys_are_requirements() -> None:
    """A template's labels say where, of what and how nodes are bought, as requirements do."""
    fleet = pool(("karpenter.k8s.aws/instance-family", "In", "g5"))
    labels = {BOUGHT: "on-demand", ZONE: "us-east-1a", TYPES[0]: "g5.xlarge", "example.com/team": "ml"}
    fleet["spec"]["template"]["metadata"] = {"labels": labels}
    result = converted(fleet)
    (row,) = yaml.safe_load(result.text)["pools"]
    assert row["labels"] == {"example.com/team": "ml"}
    assert row["nodes"]["instanceTypes"] == ["g5.xlarge"]
    assert row["nodes"]["zones"] == ["us-east-1a"]
    assert row["nodes"].keys().isdisjoint({"capacity", "spotShare"})
    assert not [entry for entry in result.leftovers if "labels" in entry.path]


@pytest.mark.parametrize(
    ("label", "value", "why"),
    [
        (BOUGHT, "reserved", RESERVED),
        ("karpenter.k8s.aws/instance-local-nvme", "900", "which machines it may start"),
    ],
)
def test_a_label_that_leaves_nothing_leaves_the_pool_out(label: str, value: str, why: str) -> None:
    fleet = pool(("karpenter.k8s.aws/instance-family", "In", "g5"))
    fleet["spec"]["template"]["metadata"] = {"labels": {label: value}}
    result = converted(fleet)
    assert yaml.safe_load(result.text)["pools"] == []
    assert [line for line in result.left_out if why in line]
