"""No environment that is accepted renders a custom resource which an API server with its CRD refuses.

Proved here and not by `gpupool render`: the CRDs lie in Go modules, and a laptop need not have Go.
GPUPOOL_FUZZ=50 runs fifty times as many examples as usual.
"""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from gpupool.environment.plan.model import Plan
from gpupool.findings import SpecError
from gpupool.generators import generate
from tests.custom_resources import Definition, definitions
from tests.environment_files import Data, plan_of
from tests.environment_strategies import environments, label_keys, label_values, taints
from tests.examples import examples
from tests.property.test_loader_fuzz import TREES
from tests.required_programs import require_definitions

SHIPPED = [{**tree, "metadata": {**tree["metadata"], "name": "random"}} for tree in TREES]
"""As `plan_of` calls the file."""
EVERY_KIND = {"NodePool", "NodeOverlay", "EC2NodeClass", "KWOKNodeClass", "ClusterPolicy"}


@pytest.fixture(scope="module")
def served() -> dict[tuple[str, str], Definition]:
    return definitions(require_definitions())


def hold(plan: Plan, served: dict[tuple[str, str], Definition]) -> Counter[str]:
    """How many objects of each kind there were to judge; all are such that the server creates them."""
    judged = Counter[str]()
    for manifest in generate(plan):
        definition = served.get((manifest.body["apiVersion"], manifest.kind))
        if definition is not None and not manifest.patch:
            judged[manifest.kind] += 1
            problems = definition.problems(dict(manifest.body))
            assert not problems, f"{manifest.kind} {manifest.name}: {problems}"
    return judged


texts = st.one_of(
    st.sampled_from(("", " ", "a b", "a" * 64, "-", "é", "a\n", "a/b", "us-east-1a", "us-west-2" + "a" * 60)),
    st.text(max_size=70),
)
counts = st.one_of(st.integers(-1, 3), st.sampled_from((100, 101, 1_000_000)))
amounts = st.from_regex(r"[0-9]{1,9}(s|m|h|d|ms)?([0-9]{1,3}[sm])?", fullmatch=True)
aliases = st.from_regex(r"(al2|al2023|bottlerocket|windows2022)@[A-Za-z0-9._-]{0,40}", fullmatch=True)
terms = st.fixed_dictionaries(
    {},
    optional={
        "alias": aliases,
        "id": st.one_of(texts, st.from_regex(r"ami-[0-9a-z]{1,17}", fullmatch=True)),
        "name": texts,
        "owner": texts,
        "ssmParameter": texts,
        "tags": st.dictionaries(texts, texts, max_size=3),
    },
)
many_labels = st.builds(
    lambda count, more: {f"label-{number}": "" for number in range(count)} | more,
    st.sampled_from((0, 0, 0, 90, 98, 99, 100, 101)),
    st.dictionaries(label_keys, label_values, max_size=3),
)
FIELDS: dict[tuple[str, ...], st.SearchStrategy[Any]] = {
    ("labels",): many_labels,
    ("taints",): st.one_of(taints, st.lists(st.fixed_dictionaries({"key": texts, "value": texts}))),
    ("maintenance", "maxUnavailable"): counts,
    ("nodes", "max"): counts,
    ("nodes", "maxGpus"): counts,
    ("nodes", "warm"): counts,
    ("nodes", "spotShare"): st.one_of(st.floats(0, 1), counts),
    ("nodes", "zones"): st.lists(texts.map("us-east-1{}".format), max_size=2),
    ("nodes", "consolidateAfter"): st.one_of(amounts, texts),
    ("nodes", "expireAfter"): st.one_of(amounts, texts),
    ("nodes", "terminationGracePeriod"): st.one_of(amounts, texts),
    ("nodes", "image"): st.fixed_dictionaries(
        {
            "family": st.sampled_from(("AL2023", "Bottlerocket", "Custom", "AL2")),
            "selectorTerms": st.lists(terms, max_size=31),
        },
        optional={"userData": texts},
    ),
    ("name",): st.one_of(texts, st.from_regex("[-a-z0-9]{1,64}", fullmatch=True)),
    ("nodes", "instanceTypes"): st.lists(st.one_of(texts, st.sampled_from(("g6.xlarge", "p5.48xlarge")))),
}
"""Of a pool, with values right and wrong; the file's rules decide which are which."""
WHOLE: dict[tuple[str, ...], st.SearchStrategy[Any]] = {
    ("cluster", "name"): texts,
    ("cluster", "region"): texts,
    ("karpenter", "nodeRole"): texts,
    ("karpenter", "discoveryTag"): texts,
    ("karpenter", "amiAlias"): aliases,
    ("gpuOperator", "driver", "version"): texts,
}


def put(tree: Data, path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = value


def change(data: st.DataObject, tree: Data) -> None:
    """Give one field of a pool, or of the whole, another value in place."""
    pools = list(tree.get("pools", ()))
    if pools and data.draw(st.integers(0, 3)):
        path = data.draw(st.sampled_from(sorted(FIELDS)))
        put(
            data.draw(st.sampled_from(range(len(pools))).map(pools.__getitem__)),
            path,
            data.draw(FIELDS[path]),
        )
    else:
        path = data.draw(st.sampled_from(sorted(WHOLE)))
        put(tree, path, data.draw(WHOLE[path]))


def test_every_kind_is_judged(served: dict[tuple[str, str], Definition]) -> None:
    """So that the properties below judge something."""
    assert set(sum((hold(plan_of(tree), served) for tree in SHIPPED), Counter())) == EVERY_KIND


@examples("environments", 60)
@given(environment=environments())
def test_random_environments(served: dict[tuple[str, str], Definition], environment: Data) -> None:
    hold(plan_of(environment), served)


@examples("environments", 250)
@given(data=st.data())
def test_changed_environments(served: dict[tuple[str, str], Definition], data: st.DataObject) -> None:
    """Shipped environments with fields given other values: refused, or rendered so that the server agrees."""
    tree = copy.deepcopy(data.draw(st.sampled_from(SHIPPED)))
    for _ in range(data.draw(st.integers(1, 2))):
        change(data, tree)
    try:
        plan = plan_of(tree)
    except SpecError:
        event("refused")
        return
    event(f"accepted, {sum(hold(plan, served).values())} objects")
