"""Promotions between shipped environments and between small ones: which lines change, and which never do."""

from __future__ import annotations

import difflib
from datetime import date
from pathlib import Path

import pytest

from gpupool.findings import GpupoolError
from gpupool.review.promote.environment_file import EnvironmentFile, read_environment_file
from gpupool.review.promote.merge import Promoted, PromotionOptions, promote
from gpupool.review.promote.rules import general, rules_of

ENVIRONMENTS = Path(__file__).parents[3] / "environments"
TODAY = date(2027, 1, 31)
HEAD = """\
apiVersion: gpupool.dev/v1alpha1
kind: Environment
metadata: {name: NAME}
cluster: {platform: local, name: ml}
"""
POOL = """\
pools:
  - name: a
    gpu: a100-80gb     # big
    sharing: {mode: mig, layout: {3g.40gb: 1, 2g.20gb: 2}}
    nodes: {instanceTypes: [p4de.24xlarge], max: 2}
"""


def environment_file(name: str, body: str) -> EnvironmentFile:
    return read_environment_file(f"{name}.yaml", (HEAD.replace("NAME", name) + body).encode())


def shipped(name: str) -> EnvironmentFile:
    return read_environment_file(f"{name}.yaml", (ENVIRONMENTS / f"{name}.yaml").read_bytes())


def into(source: str, target: str, wish: PromotionOptions | None = None) -> Promoted:
    """A promotion by the rules that the target's own text has."""
    sides = environment_file("dev", source), environment_file("prod", target)
    return promote(*sides, rules_of(sides[1].environment.promotion, TODAY), wish or PromotionOptions())


def body(promoted: Promoted) -> str:
    return promoted.text.removeprefix(HEAD.replace("NAME", "prod"))


@pytest.mark.parametrize(("source", "target"), [("dev", "staging"), ("staging", "prod")])
def test_shipped_environments_are_promoted(source: str, target: str) -> None:
    to = shipped(target)
    promoted = promote(
        shipped(source), to, rules_of(to.environment.promotion, TODAY), PromotionOptions(delete=True)
    )
    assert promoted.text == to.text
    assert not promoted.changes


CHANGES = {
    "replicas: 8": "replicas: 4",
    "{3g.40gb: 1, 2g.20gb: 2}": "{1g.10gb: 7}",
    "workload-type: research}": "workload-type: play, team: ml}",
    "level: high}": "level: medium}",
    "  database:": "  retries: 5\n  database:",
}


@pytest.mark.parametrize("old", list(CHANGES))
@pytest.mark.parametrize("target", ["staging", "prod"])
def test_no_other_line_of_a_shipped_file_changes(old: str, target: str) -> None:
    source = "dev" if target == "staging" else "staging"
    text = (ENVIRONMENTS / f"{source}.yaml").read_text(encoding="utf-8")
    assert old in text
    changed = read_environment_file(f"{source}.yaml", text.replace(old, CHANGES[old]).encode())
    to = shipped(target)
    promoted = promote(changed, to, rules_of(to.environment.promotion, TODAY), PromotionOptions())
    assert promoted.changes
    lines = list(difflib.ndiff(to.text.splitlines(True), promoted.text.splitlines(True)))
    gone = [line[2:] for line in lines if line.startswith("- ")]
    come = [line[2:] for line in lines if line.startswith("+ ")]
    words = ("replicas", "layout", "workload-type", "level:", "retries")
    assert all(any(word in line for word in words) for line in gone + come)
    assert len(gone) <= len(come) <= 3


def test_sharing_arrives_and_sizes_stay() -> None:
    source = POOL.replace("{3g.40gb: 1, 2g.20gb: 2}", "{1g.10gb: 7}").replace("max: 2", "max: 1")
    promoted = into(source, POOL)
    assert body(promoted) == POOL.replace("{3g.40gb: 1, 2g.20gb: 2}", "{1g.10gb: 7}")
    assert [one.path for one in promoted.changes] == [
        "pools.a.sharing.layout.1g.10gb",
        "pools.a.sharing.layout.3g.40gb",
        "pools.a.sharing.layout.2g.20gb",
    ]


def test_another_mode_leaves_nothing_of_the_old_one() -> None:
    source = POOL.replace(
        "{mode: mig, layout: {3g.40gb: 1, 2g.20gb: 2}}", "{mode: time-slicing, replicas: 3}"
    )
    assert body(into(source, POOL)) == source
    whole = POOL.replace("    sharing: {mode: mig, layout: {3g.40gb: 1, 2g.20gb: 2}}\n", "")
    assert body(into(whole, POOL)) == whole


def test_what_is_written_out_equals_what_is_left_out() -> None:
    whole = POOL.replace("{mode: mig, layout: {3g.40gb: 1, 2g.20gb: 2}}", "{mode: exclusive}")
    left_out = POOL.replace("    sharing: {mode: mig, layout: {3g.40gb: 1, 2g.20gb: 2}}\n", "")
    assert body(into(left_out, whole)) == whole
    assert body(into(whole, left_out)) == left_out


def test_machines_come_along_with_another_gpu_only() -> None:
    source = (
        POOL.replace("a100-80gb", "h100-80gb")
        .replace("p4de.24xlarge", "p5.4xlarge")
        .replace("max: 2", "max: 9")
    )
    promoted = body(into(source, POOL))
    assert "gpu: h100-80gb     # big\n" in promoted
    assert "{instanceTypes: [p5.4xlarge], max: 2}" in promoted
    kept = "promotion: {from: dev, keep: [pools.a.nodes.instanceTypes]}\n"
    assert "p4de.24xlarge" in body(into(source, POOL + kept))


NEW = (
    POOL
    + "  # for b\n  - name: b\n    gpu: t4   # small\n    nodes: {instanceTypes: [g4dn.xlarge], max: 9}\n"
)


def test_a_new_pool_is_marked_and_brings_its_sizes_or_the_given_one() -> None:
    promoted = into(NEW, POOL)
    assert promoted.new == ("b",)
    assert body(promoted) == NEW.replace(
        "# for b", "# New from dev, with its sizes: check that they fit here."
    )
    sized = into(NEW, POOL, PromotionOptions(sizes={"max": 2, "maxGpus": 8}))
    assert "# New from dev, with nodes.max 2:" in sized.text
    assert "{instanceTypes: [g4dn.xlarge], max: 2}" in sized.text
    mixed = NEW.replace("[g4dn.xlarge], max: 9", "[g4dn.xlarge, g4dn.12xlarge], maxGpus: 36")
    assert (
        "g4dn.12xlarge], maxGpus: 8}"
        in into(mixed, POOL, PromotionOptions(sizes={"max": 2, "maxGpus": 8})).text
    )


def test_a_pool_that_is_kept_neither_comes_nor_goes() -> None:
    kept = "promotion: {from: dev, keep: [pools.b]}\n"
    assert body(into(NEW, POOL + kept)) == POOL + kept
    assert body(into(POOL, NEW + kept, PromotionOptions(delete=True))) == NEW + kept


def test_a_pool_goes_only_when_asked_to() -> None:
    promoted = into(POOL, NEW)
    assert (body(promoted), promoted.left, promoted.changes) == (NEW, ("pools.b",), ())
    gone = into(POOL, NEW, PromotionOptions(delete=True))
    assert body(gone) == POOL
    assert [str(one) for one in gone.changes] == ["pools.b: (none) -> (here)"]


def test_priorities_go_where_their_values_put_them() -> None:
    ours = "priorities:\n  - {name: low, value: 1, level: low}\n"
    theirs = (
        "priorities:\n  - {name: top, value: 9, level: critical}\n  - {name: mid, value: 5, level: high}\n"
    )
    assert body(into(theirs, ours)) == theirs + ours.removeprefix("priorities:\n")


def test_versions_are_promoted_and_names_of_the_account_are_not() -> None:
    source = (
        "gpuOperator: {version: v26.3.0, driver: {enabled: false, version: 580.1.2}}\n"
        "karpenter: {version: 1.13.0, nodeRole: dev}\n"
    )
    target = "gpuOperator:\n  driver: {enabled: true}  # on\nkarpenter: {nodeRole: prod}\n"
    assert body(into(source, target)) == (
        "gpuOperator:\n  version: v26.3.0\n  driver: {enabled: true, version: 580.1.2}  # on\n"
        "karpenter: {version: 1.13.0, nodeRole: prod}\n"
    )


def test_own_rules_go_before_the_general_ones_and_exceptions_before_both() -> None:
    follow = "promotion: {from: dev, follow: [pools.a.nodes.max]}\n"
    bigger = POOL.replace("max: 2", "max: 7")
    assert body(into(bigger, POOL + follow)) == bigger + follow
    exception = (
        "promotion:\n  from: dev\n  follow: [pools.a.nodes.max]\n"
        "  exceptions: [{path: pools.a, reason: x, until: 2027-01-31}]\n"
    )
    assert body(into(bigger, POOL + exception)) == POOL + exception
    over = exception.replace("01-31", "01-30")
    assert body(into(bigger, POOL + over)) == bigger + over


def test_the_more_precise_of_two_own_rules_holds() -> None:
    rules = "promotion: {from: dev, keep: [pools.*.labels], follow: [pools.a.labels.team]}\n"
    source = POOL + "    labels: {team: x, tier: one}\n"
    assert body(into(source, POOL + "    labels: {tier: two}\n" + rules)) == (
        POOL + "    labels: {team: x, tier: two}\n" + rules
    )


def test_shared_values_are_refused_and_nothing_is_guessed() -> None:
    shared = POOL.replace(
        "{mode: mig, layout: {3g.40gb: 1, 2g.20gb: 2}}", "&s {mode: time-slicing, replicas: 2}"
    )
    shared += "  - name: b\n    gpu: t4\n    sharing: *s\n    nodes: {instanceTypes: [g4dn.xlarge], max: 1}\n"
    source = shared.replace("&s ", "").replace("*s", "{mode: time-slicing, replicas: 2}")
    with pytest.raises(GpupoolError, match="anchor"):
        into(source.replace("replicas: 2", "replicas: 3", 1), shared)
    with pytest.raises(GpupoolError, match=r"\*s refers to a value elsewhere"):
        into(source[::-1].replace("2 :sacilper", "3 :sacilper", 1)[::-1], shared)
    anchored = into(shared, POOL.replace("  - name: a", "  - name: z"), PromotionOptions(frozenset({"b"})))
    assert "- {name: b, gpu: t4, sharing: {mode: time-slicing, replicas: 2}, nodes:" in anchored.text


MERGED = """\
pools:
  - &base
    name: a
    gpu: t4
    labels: {team: ml}
    nodes: {instanceTypes: [g4dn.xlarge], max: 1}
  - <<: *base
    name: b
"""


def test_a_merge_key_is_overridden_where_that_can_be_and_else_refused() -> None:
    alone = MERGED.replace("&base\n    ", "")
    first = alone[: alone.index("  - <<")]
    source = first + first.removeprefix("pools:\n").replace("name: a", "name: b")
    assert body(into(source, MERGED)) == MERGED
    mps = source + "    sharing: {mode: mps, replicas: 3}\n"
    assert body(into(mps, MERGED)) == MERGED + "    sharing: {mode: mps, replicas: 3}\n"
    with pytest.raises(GpupoolError, match=r"line 11: labels comes from a merge key"):
        into(first + source.removeprefix(first).replace("    labels: {team: ml}\n", ""), MERGED)
    with pytest.raises(GpupoolError, match=r"anchor"):
        into(first + source.removeprefix(first).replace("max: 1}", "max: 1, expireAfter: 24h}"), MERGED)


def test_general_rules_name_fields_that_exist() -> None:
    from gpupool.environment.plan.checks.promotion import _unknown

    assert len(general()) > 20
    assert [path for path in general() if _unknown(path)] == []


def test_a_pool_that_is_asked_for_leaves_a_priority_of_its_name() -> None:
    priority = "priorities: [{name: a, value: 100, level: high}]\n"
    changed = POOL.replace("max: 2", "max: 2, warm: 1")
    assert priority in body(into(changed, POOL + priority, PromotionOptions(frozenset({"a"}), delete=True)))
    assert priority not in body(into(changed, POOL + priority, PromotionOptions(delete=True)))
