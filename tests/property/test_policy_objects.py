"""No object ends a policy check: whatever stands in a manifest, there is an answer, and what is wrong with a
document is reported with its place.

GPUPOOL_FUZZ=50 runs fifty times as many examples.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from vapcheck import Document, check, read_files, read_text
from vapcheck.policy.compiled_policy import Compiler

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cluster" / "policies"
SURROUNDINGS = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: r, labels: {a: b}}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}
rules:
- {apiGroups: ["*"], resources: [pods], verbs: [get], resourceNames: [x]}
- {nonResourceURLs: [/x], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: r}
roleRef: {kind: ClusterRole, name: r, apiGroup: rbac.authorization.k8s.io}
subjects: [{kind: ServiceAccount, name: x, namespace: y}, {kind: User, name: gpupool-check}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: r, namespace: default}
roleRef: {kind: Role, name: r, apiGroup: rbac.authorization.k8s.io}
subjects: [{kind: User, name: gpupool-check}]
---
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {a: b}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: l, namespace: default}
spec: {limits: [{type: Container, default: {cpu: 1}, defaultRequest: {cpu: 1}}]}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: p}
value: 3
globalDefault: true
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: default}
imagePullSecrets: [{name: x}]
---
apiVersion: v1
kind: Secret
metadata: {name: s}
data: {a: YQ==}
---
apiVersion: v1
kind: Pod
metadata: {generateName: p-, namespace: default, labels: {a: b}}
spec:
  containers:
  - {name: a, image: "x:1", ports: [{containerPort: 80}], resources: {limits: {memory: 1Gi}}}
"""
POLICIES = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: asks}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]
  validations:
  - expression: authorizer.group('').resource('pods').namespace('default').check('get').allowed()
  - expression: namespaceObject == null || namespaceObject.metadata.labels.size() > 0
  - expression: "!has(object.data) || !('a' in object.data) || object.data.a.matches('a+')"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: asks}
spec:
  policyName: asks
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {a: b}}, objectSelector: {matchLabels: {a: b}}}
"""
COMPILER = Compiler()


def documents(text: str, *files: Path) -> list[Document]:
    found, findings = read_text(text, "f.yaml")
    more, wrong = read_files(files)
    assert not findings + wrong
    return [*found, *more]


RULES = documents(POLICIES, *sorted((ROOT / "policies").glob("*.yaml")))
AROUND = [document.body for document in documents(SURROUNDINGS)]
SEEDS = AROUND + [
    document.body
    for document in documents(
        "", *(CASES / f"admission_{name}.yaml" for name in ("cases", "crd", "custom", "surroundings"))
    )
]
SHAPES = [[], {}, [None], [[]], [{}], [1], {"a": None}, {"a": []}, {"": 1}, {"a": {}}]
NUMBERS = [0, -1, 1.5, 10**30, 2**31, 2**63, True, None]
TEXTS = ["", "x", "\x00", "yes", "9" * 5_000, "1GB", "\ud800", "0001-01-01T00:00:00+05:00"]
JUNK = st.sampled_from([*SHAPES, *NUMBERS, *TEXTS])


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything in an object but its apiVersion and kind."""
    if path and path not in (("apiVersion",), ("kind",)):
        yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in parts:
        yield from places(item, (*path, key))


def spoilt(draw: st.DrawFn, body: dict[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(body)
    for _ in range(draw(st.integers(1, 2))):
        *parents, last = draw(st.sampled_from(list(places(found))))
        where: Any = found
        for key in parents:
            where = where[key]
        where[last] = copy.deepcopy(draw(JUNK))
    return found


@st.composite
def bundles(draw: st.DrawFn) -> str:
    """A bundle in which one of the objects that others are judged by, and some more, are spoilt."""
    around = list(AROUND)
    index = draw(st.integers(0, len(around) - 1))
    around[index] = spoilt(draw, around[index])
    more = [spoilt(draw, draw(st.sampled_from(SEEDS))) for _ in range(draw(st.integers(0, 4)))]
    return "\n---\n".join(json.dumps(body) for body in around + more)


@examples("policy engine", 150)
@given(bundles(), st.sampled_from(["CREATE", "UPDATE", "DELETE"]))
def test_no_object_ends_a_check(text: str, operation: str) -> None:
    found, _ = read_text(text, "f.yaml")
    report = check(found, policies=RULES, operation=operation, compiler=COMPILER)
    for finding in report.findings:
        assert finding.rule != "not-judged", finding
        if finding.origin == "document":
            assert finding.message
            assert finding.line
            assert finding.remediation or finding.rule == "unknown-kind"
