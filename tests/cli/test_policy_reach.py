"""Of a check of an environment and manifests together, what is said of a policy holds for both."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from gpupool.policy.check import Question, run
from gpupool.policy.result import UNMATCHED

POD = """
apiVersion: v1
kind: Pod
metadata: {name: idle, namespace: family}
spec: {containers: [{name: main, image: registry.example.com/work:1}]}
"""


def test_a_policy_that_matched_nothing_is_explained_once_by_what_came_furthest(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(POD, encoding="utf-8")
    found = [
        row for row in run(Question(("homelab", str(file))), str).report.findings if row.rule == UNMATCHED
    ]
    messages = {row.object.name: row.message for row in found if row.object}
    assert set(Counter(row.object.name for row in found if row.object).values()) == {1}
    assert messages["gpu-pods-name-a-pool"] == "matched no object: matchConditions exclude everything"
    assert messages["services-stay-inside"].endswith("no object has a kind that the rules name for CREATE")
