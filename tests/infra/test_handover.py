"""The engine that takes over owns what those before it owned, and no other manager loses anything."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpupool.infra.handover import handed_over

_TREES = st.recursive(
    st.just({}),
    lambda inner: st.dictionaries(st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', "."]), inner),
    max_leaves=8,
)
_ROWS = st.builds(
    lambda manager, operation, version, fields: {
        "manager": manager,
        "operation": operation,
        "apiVersion": version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    },
    st.sampled_from(["gpupool", "argocd-controller", "kubectl", "karpenter"]),
    st.sampled_from(["Apply", "Update"]),
    st.sampled_from(["v1", "v1beta1"]),
    _TREES,
)
_OTHERS = frozenset({"gpupool"})


def paths(fields: Any, above: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    return {above}.union(*(paths(inner, (*above, key)) for key, inner in fields.items()))


def owned(rows: list[Any], *managers: str) -> set[tuple[str, ...]]:
    return set().union(
        *(paths(row["fieldsV1"], (row["apiVersion"],)) for row in rows if row["manager"] in managers)
    )


@given(
    st.lists(_ROWS, max_size=5, unique_by=lambda row: (row["manager"], row["operation"], row["apiVersion"]))
)
def test_nothing_is_lost_and_one_owns_all(rows: list[Any]) -> None:
    after = handed_over(rows, _OTHERS, "argocd-controller")
    if after is None:
        assert not any(row["manager"] == "gpupool" for row in rows)
        return
    assert not any(row["manager"] == "gpupool" for row in after)
    assert owned(after, "argocd-controller") == owned(rows, "argocd-controller", "gpupool")
    assert [row for row in after if row["manager"] in ("kubectl", "karpenter")] == [
        row for row in rows if row["manager"] in ("kubectl", "karpenter")
    ]
    identities = [(row["manager"], row["operation"], row["apiVersion"]) for row in after]
    assert len(identities) == len(set(identities))
    assert handed_over(after, _OTHERS, "argocd-controller") is None


def test_the_status_stays_with_its_writer() -> None:
    row = {
        "manager": "gpupool",
        "operation": "Update",
        "apiVersion": "v1",
        "subresource": "status",
        "fieldsV1": {},
    }
    assert handed_over([row], _OTHERS, "argocd-controller") is None
