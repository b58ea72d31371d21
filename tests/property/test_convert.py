"""Conversion as properties: what gpupool generates converts back to the same pools, nothing vanishes
unsaid, and no input is a crash."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from gpupool.adopt.convert.convert import Conversion, convert
from gpupool.adopt.convert.documents import Document, parse_documents
from gpupool.adopt.convert.draft import Choices
from gpupool.environment.plan.model import Plan, Pool
from gpupool.environment.plan.policy_files import policy_files, policy_names
from gpupool.environment.plan.resolve import read_plan, resolve
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source, path_text
from gpupool.generators import generate
from gpupool.generators.emit import yaml_text
from tests.environment_combinations import LEGAL
from tests.environment_files import Data, plan_of
from tests.environment_strategies import environments
from tests.examples import examples


def converted(text: str, choices: Choices | None = None) -> Conversion:
    documents, findings = parse_documents("input.yaml", text.encode())
    assert not findings
    return convert(documents, choices or Choices())


def plan_from(text: str, name: str = "random") -> Plan:
    return resolve(check_shape(parse_source(f"{name}.yaml", text.encode())))


def generated(plan: Plan) -> str:
    """Everything that is generated, as one file, but for the policies, which are large and never change; the
    operator's Helm values are among it."""
    bundle = generate(plan)
    objects = [m.body for m in bundle.manifests if m.kind != "ValidatingAdmissionPolicy"]
    values = [release.values for release in bundle.releases if release.name in ("gpu-operator", "karpenter")]
    return "---\n".join(map(yaml_text, [*objects, *values]))


def seen(pool: Pool) -> Any:
    """What of a pool a cluster can show: all but prose, and a share that two numbers of nodes stand for."""
    return (
        *(pool.name, pool.gpu.key, pool.sharing, pool.machines, pool.capacities, pool.gpus_max, pool.warm),
        *(pool.zones, pool.consolidate_after, pool.expire_after, dict(pool.labels), pool.taints),
        *(pool.termination_grace_period, pool.jobs_only, pool.overcommit),
        pool.reserved_consolidate_after,
        *(pool.max_unavailable, pool.window, pool.image, pool.node_names),
    )


actions = st.sampled_from(("deny", "warn", "audit"))
names = sorted(policy_names(policy_files(None)))
policies = st.fixed_dictionaries(
    {},
    optional={
        "default": actions,
        "overrides": st.dictionaries(st.sampled_from(names), actions, max_size=3),
        "waivers": st.lists(
            st.fixed_dictionaries(
                {
                    "policy": st.sampled_from(("gpu-jobs-end", "pin-images", "restricted-pods")),
                    "owner": st.sampled_from(("mlops", "Jo, of the lab")),
                    "reason": st.sampled_from(("migrating", "until: later, until 2030-01-01: no")),
                    "until": st.just("2031-03-31"),
                },
                optional={"namespace": st.just("legacy")},
            ),
            max_size=2,
            unique_by=lambda waiver: waiver["policy"],
        ),
        "limits": st.fixed_dictionaries(
            {"jobTtl": st.sampled_from(("1h", "168h", "90s")), "jobRetries": st.just(5)},
            optional={"deviceClasses": st.just(["rdma.example.com"])},
        ),
        "scope": st.sampled_from(("gpu", "cluster")),
    },
)


CONVERTED = [
    it
    for it in LEGAL
    if (it.nodes, it.delivery, it.operator, it.queue) == ("karpenter", "pulumi", "installed", "embedded")
]
"""Combinations of which every part is seen in the objects."""
controllers = st.fixed_dictionaries(
    {},
    optional={
        "interruptionQueue": st.just("spot-notices"),
        "values": st.just({"replicas": 1, "settings": {"batchMaxDuration": "5s"}}),
    },
)


@examples("conversion", 25, list(HealthCheck))
@given(data=st.data())
def test_generated_objects_convert_to_the_same_pools(data: st.DataObject) -> None:
    platform = data.draw(st.sampled_from(("eks", "local")))
    environment: Data = data.draw(environments(platform, among=CONVERTED))
    if platform == "local":  # whose node class selects no reservations
        for pool in environment["pools"]:
            pool["nodes"].pop("reserved", None)
            pool["nodes"].pop("reservedConsolidateAfter", None)
    if platform == "eks":
        environment["karpenter"] |= data.draw(controllers)
    environment["policies"] = data.draw(policies)
    plan = plan_of(environment)
    result = converted(generated(plan), Choices(name="random", region="us-east-1", cluster="ml"))
    assert result.platform == platform or not plan.pools
    assert not [str(entry) for entry in result.leftovers if entry.category != "assumed"]
    again = plan_from(result.text)
    assert [seen(pool) for pool in sorted(again.pools, key=lambda p: p.name)] == [
        seen(pool) for pool in sorted(plan.pools, key=lambda p: p.name)
    ]
    assert [(p.name, p.value, p.preempts) for p in again.priorities] == [
        (p.name, p.value, p.preempts) for p in plan.priorities
    ]
    assert {t.name: (dict(t.quota), t.max_priority) for t in again.tenants} == {
        t.name: (dict(t.quota), t.max_priority) for t in plan.tenants
    }
    assert again.gpu_operator == plan.gpu_operator
    assert again.karpenter == plan.karpenter or platform == "local" or not plan.pools
    if plan.pools or platform == "local":  # nothing else shows where a cluster is
        assert {m.key: m.body for m in generate(again)} == {m.key: m.body for m in generate(plan)}


ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("file", ["tests/environment/plan/every-field-eks.yaml", "environments/prod.yaml"])
def test_every_field_of_machines_converts_back(file: str) -> None:
    """What the draws above come to only now and then: each field once."""
    plan = plan_from((ROOT / file).read_text(), Path(file).stem)
    choices = Choices(name=plan.environment, region=plan.cluster.region, cluster=plan.cluster.name)
    result = converted(generated(plan), choices)
    assert not [str(entry) for entry in result.leftovers if entry.category != "assumed"]
    again = plan_from(result.text, plan.environment)
    kinds = ("NodePool", "EC2NodeClass", "NodeOverlay")
    objects, before = (
        {m.key: m.body for m in generate(p).manifests if m.kind in kinds} for p in (again, plan)
    )
    assert objects == before
    assert again.karpenter is not None
    assert plan.karpenter is not None
    assert again.karpenter.warm_pod_image == plan.karpenter.warm_pod_image


CASES = Path(__file__).parents[1] / "golden" / "convert"
INPUTS = {case.name: sorted((case / "input").iterdir()) for case in sorted(CASES.iterdir())}
NAMES_OF_NOTHING = (("apiVersion",), ("kind",), ("app.kubernetes.io/managed-by",), ("namespace",))
"""Whatever stands there, the pools are the same: another kind is another input, and who packed an object or
where a ConfigMap lies is for gpupool to choose again."""
CHART_NAMES = {("time-slicing-values", ("devicePlugin", "config", "name"))}
"""The name that the chart is to give to a ConfigMap of its own making."""
MARKER = "zz-changed-zz"


def read(case: str) -> list[Document]:
    found = [parse_documents(file.name, file.read_bytes()) for file in INPUTS[case]]
    assert not any(findings for _, findings in found)
    return [document for documents, _ in found for document in documents]


def places(value: Any, loc: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every mapping and every scalar below `value`."""
    if isinstance(value, dict):
        return [loc, *(place for key, inner in value.items() for place in places(inner, (*loc, key)))]
    if isinstance(value, list):
        return [place for index, inner in enumerate(value) for place in places(inner, (*loc, index))]
    return [loc]


def changed(value: Any, loc: tuple[Any, ...], new: Any) -> Any:
    """A copy of `value` with `new` at `loc`: as one more field of a mapping, in place of a scalar."""
    if not loc:
        return {**value, MARKER: new} if isinstance(value, dict) else new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[loc[0]] = changed(value[loc[0]], loc[1:], new)
    return copy


def said_of(result: Conversion, title: str, loc: tuple[Any, ...]) -> bool:
    """Whether the list has an entry about `loc` of that object, or about what it is part of or made of."""
    about = path_text(loc)
    return any(
        entry.object.partition(",")[0] in title
        and (
            about.startswith(entry.path) or entry.path.startswith(about) or MARKER in entry.path + entry.value
        )
        for entry in result.leftovers
        if entry.category != "assumed" or entry.path
    )


@pytest.mark.parametrize("case", sorted(INPUTS))
def test_an_unknown_field_is_listed_or_written(case: str) -> None:
    """Every mapping of every input gets a field more, one at a time."""
    documents = read(case)
    for index, document in enumerate(documents):
        for loc in places(document.data):
            inner = document.data
            for part in loc:
                inner = inner[part]
            if not isinstance(inner, dict) or loc[:1] == ("status",) or document.kind == "Node":
                continue
            altered = replace(document, data=changed(document.data, loc, "extra"))
            result = convert([*documents[:index], altered, *documents[index + 1 :]], Choices())
            where = (*loc, MARKER)
            assert MARKER in result.text or said_of(result, altered.title, where), path_text(where)


@pytest.mark.parametrize("case", sorted(INPUTS))
def test_a_changed_value_is_listed_or_changes_the_file(case: str) -> None:
    """Every scalar of every input is replaced, one at a time."""
    documents = read(case)
    before = convert(documents, Choices())
    for index, document in enumerate(documents):
        for loc in places(document.data):
            if loc[-1:] in NAMES_OF_NOTHING or (case, loc) in CHART_NAMES:
                continue
            inner = document.data
            for part in loc:
                inner = inner[part]
            if isinstance(inner, dict) or document.kind == "Node":
                continue
            altered = replace(document, data=changed(document.data, loc, MARKER))
            result = convert([*documents[:index], altered, *documents[index + 1 :]], Choices())
            listed = said_of(result, altered.title, loc)
            assert result.text != before.text or listed or result.leftovers != before.leftovers, path_text(
                loc
            )


@cache
def shipped(name: str) -> tuple[Document, ...]:
    return tuple(parse_documents("input.yaml", generated(read_plan(name)).encode())[0])


def objects_of(name: str) -> list[Document]:
    """Everything that a shipped environment amounts to, as a cluster shows it."""
    return [replace(document, source=None) for document in shipped(name)]


words = st.sampled_from(
    ("v1", "", "all", "Never", "10m", "-1", "In", "1e400", "nvidia.com/gpu", "a" * 300, "p5.48xlarge")
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-(10**20), 10**20), words, st.text(max_size=8))
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(words, st.text(max_size=6)), inner, max_size=4)
    ),
    max_leaves=10,
)


@examples("conversion", 150, list(HealthCheck))
@given(data=st.data())
def test_no_value_anywhere_is_a_crash(data: st.DataObject) -> None:
    """Real inputs with up to four values replaced by anything: the answer is a file and a list."""
    case = data.draw(st.sampled_from((*sorted(INPUTS), "local", "homelab", "prod")))
    documents = read(case) if case in INPUTS else objects_of(case)
    for _ in range(data.draw(st.integers(1, 4))):
        index = data.draw(st.integers(0, len(documents) - 1))
        found = places(documents[index].data)
        loc = data.draw(st.sampled_from(found))
        altered = changed(documents[index].data, loc, data.draw(anything))
        documents[index] = replace(documents[index], data=altered, source=None)
    result = convert(documents, Choices())
    assert result.text.startswith("# yaml-language-server")
    parse_source("converted.yaml", result.text.encode())
    assert all("\n" not in str(entry) for entry in result.leftovers)


@examples("conversion", 150)
@given(st.one_of(st.binary(max_size=200), st.text("-:.[]{}&*?|>'\"#%\n ab01", max_size=200).map(str.encode)))
def test_no_bytes_are_a_crash(raw: bytes) -> None:
    documents, findings = parse_documents("input.yaml", raw)
    assert all(finding.line >= 1 for finding in findings)
    convert(documents, Choices())
