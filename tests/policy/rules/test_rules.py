"""Every bundle rule finds its fault in a shipped environment, at its place, and nothing in it unbroken."""

from __future__ import annotations

import pytest
import yaml

from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import generate
from gpupool.generators.render import files
from gpupool.policy.rules import RULES, ObjectSet, check_bundle
from tests.policy.rules.changes import Change
from tests.policy.rules.counting_faults import COUNTING
from tests.policy.rules.drafts import SHIPPED, shipped
from tests.policy.rules.naming_faults import NAMING

BAD = {**NAMING, **COUNTING}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_environments_are_clean(name: str) -> None:
    assert shipped(name).findings() == []


@pytest.mark.parametrize("name", SHIPPED)
def test_rendered_folders_are_clean_without_their_plan(name: str) -> None:
    texts = [text for path, text in files(generate(read_plan(name))).items() if path.endswith(".yaml")]
    bundle = ObjectSet.of(name, [yaml.safe_load(text) for text in texts])
    assert len(bundle.objects) + len(bundle.releases) == len(texts)
    assert check_bundle(bundle) == []


def test_every_rule_has_a_bad_case() -> None:
    names = [rule.name for rule in RULES]
    assert list(BAD) == names, "in the order in which they are registered"
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("rule", "name", "change", "place", "message"),
    [
        pytest.param(rule, *case, id=f"{rule}-{n}")
        for rule, cases in BAD.items()
        for n, case in enumerate(cases)
    ],
)
def test_fault_is_found(rule: str, name: str, change: Change, place: str, message: str) -> None:
    draft = shipped(name)
    change(draft)
    found = [finding for finding in draft.findings() if finding.rule == rule]
    assert found, {finding.rule for finding in draft.findings()}
    said = [(f"{finding.object or ''} {finding.path}", finding.message) for finding in found]
    assert any(place in where and message in text for where, text in said), said
    registered = next(known for known in RULES if known.name == rule)
    assert {finding.level for finding in found} == {registered.level}
    assert {finding.origin for finding in found} == {"bundle"}
    assert all(finding.title and finding.why and finding.remediation for finding in found)
