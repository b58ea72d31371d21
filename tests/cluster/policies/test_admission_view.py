"""The admission view against the API server: what it gave to admission for the same objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gpupool.local import crds
from gpupool.local.control_plane import ControlPlane
from tests.cluster.kube import Kube
from tests.cluster.policies.admission_recorder import Recorder, recording
from vapcheck import Document, Kinds, read_files
from vapcheck.server import admission_view
from vapcheck.server.admission_view import Surroundings, as_admitted

Object = dict[str, Any]
HERE = Path(__file__).parent
TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture(scope="module")
def recorder(control_plane: ControlPlane) -> Iterator[Recorder]:
    with recording(control_plane) as found:
        yield found


def documents(name: str) -> list[Document]:
    found, findings = read_files([HERE / name])
    assert not findings
    return found


def comparable(body: Object) -> Object:
    """The object with stand-ins for what differs between two requests: uid, random names, addresses, now."""
    metadata = body["metadata"]
    text = json.dumps(body).replace(metadata.get("uid", "no uid"), admission_view.UID)
    prefix = metadata.get("generateName")
    if prefix:
        text = text.replace(metadata["name"], prefix + admission_view.RANDOM)
    text = re.sub(r"kube-api-access-[a-z0-9]{5}", f"kube-api-access-{admission_view.RANDOM}", text)
    now = datetime.now(UTC)

    def moment(match: re.Match[str]) -> str:
        age = abs((now - datetime.fromisoformat(match[0].replace("Z", "+00:00"))).total_seconds())
        return "now" if age < 3600 else match[0]

    found: Object = json.loads(TIMES.sub(moment, text))
    found["metadata"].pop("managedFields", None)
    if found["kind"] == "Service" and found["spec"].get("clusterIP", "None") != "None":
        found["spec"] |= {"clusterIP": "allocated", "clusterIPs": ["allocated"]}
        for port in found["spec"]["ports"]:
            if port.get("nodePort", 30123) != 30123:
                port["nodePort"] = 30000
    return found


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted({*ours, *theirs}):
            if key not in ours:
                yield f"{path}.{key}: the server has {theirs[key]!r}"
            elif key not in theirs:
                yield f"{path}.{key}: only ours has {ours[key]!r}"
            else:
                yield from differences(ours[key], theirs[key], f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(mine, other, f"{path}[{index}]")
    elif ours != theirs or type(ours) is not type(theirs):
        yield f"{path}: ours {ours!r}, the server's {theirs!r}"


def compare(recorder: Recorder, body: Object, kinds: Kinds, around: Surroundings | None = None) -> None:
    before = json.dumps(body)
    ours = as_admitted(body, kinds, operation="CREATE", surroundings=around)
    assert json.dumps(body) == before, "the object was changed"
    theirs = recorder.create(body)
    if "name" in theirs:
        assert theirs["name"] == theirs["object"]["metadata"]["name"], "request.name"
    assert list(differences(comparable(ours), comparable(theirs["object"]))) == []


CASES = documents("admission_cases.yaml")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.body['kind']}-{case.line}")
def test_built_in_kinds(recorder: Recorder, case: Document) -> None:
    compare(recorder, case.body, Kinds.builtin())


def test_every_kind_with_defaults_has_a_case() -> None:
    """A default that nothing compares could be wrong for years."""
    text = (HERE / "admission_cases.yaml").read_text()
    created = json.loads((Path(admission_view.__file__).parent / "admission_created.json").read_text())
    missing = [kind for kind in created["generation"] if f"kind: {kind}\n" not in text]
    assert missing == []


def test_custom_kinds(recorder: Recorder, kube: Kube) -> None:
    definitions = documents("admission_crd.yaml")
    crds.serve(recorder.api, [definition.body for definition in definitions])
    # The list of kinds lags behind the kinds.
    kube.wait("it is known", lambda: recorder.api.resource("admission.gpupool.dev/v1", "Gadget"))
    kinds = Kinds.builtin().with_crds(definitions)
    for document in documents("admission_custom.yaml"):
        compare(recorder, document.body, kinds)
    definition = ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "gadgets.admission.gpupool.dev")
    recorder.api.delete(*definition)
    kube.wait("it is gone", lambda: recorder.api.get(*definition) is None)


def test_what_surrounds_a_pod(recorder: Recorder) -> None:
    found = [document.body for document in documents("admission_surroundings.yaml")]
    objects = [body for body in found if body["kind"] != "Pod"]
    for body in objects:
        recorder.api.apply(body, "tests", force=True)
    try:
        kinds = Kinds.builtin()
        around = Surroundings.of(as_admitted(body, kinds, operation="CREATE") for body in objects)
        for body in found:
            if body["kind"] == "Pod":
                compare(recorder, body, kinds, around)
    finally:
        for name in ("around-low", "around-usual"):
            recorder.api.delete("scheduling.k8s.io/v1", "PriorityClass", name)
        recorder.api.delete("v1", "Namespace", "around")


quantities = st.one_of(
    st.from_regex(r"\A(0|[1-9][0-9]{0,8})(\.[0-9]{1,4})?(Ki|Mi|Gi|Ti|m|k|M|G|T|)\Z"),
    st.from_regex(r"\A[0-9]{1,5}(\.[0-9]{1,3})?[eE][-+]?[0-9]\Z"),
    st.from_regex(r"\A(\.[0-9]{1,3}|[0-9]{1,3}\.)(Ki|Mi|m|u|n|)\Z"),
    st.integers(0, 10**12),
    st.floats(0, 10**6).map(lambda number: round(number, 3)),
)


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],  # each try is a request, and a list of 100 shrinks for minutes
)
@given(st.lists(quantities, min_size=1, max_size=100))
def test_quantities(recorder: Recorder, values: list[Any]) -> None:
    containers = [
        {"name": f"c{index}", "image": "x", "resources": {"limits": {"cpu": value}}}
        for index, value in enumerate(values)
    ]
    volumes = [{"name": f"v{index}", "emptyDir": {"sizeLimit": value}} for index, value in enumerate(values)]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers, "volumes": volumes}}
    body = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "many"}, "template": template}
    compare(recorder, body, Kinds.builtin())
