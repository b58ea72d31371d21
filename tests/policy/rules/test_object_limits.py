"""Objects at the bounds of Kubernetes and one beyond, and the place in the file that is named for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source
from gpupool.generators import generate
from gpupool.policy.gate import beyond_limits
from gpupool.policy.rules import ObjectSet
from gpupool.policy.rules import object_limits as limits
from gpupool.policy.rules.object_limits import ObjectLimit, exceeded, object_limits
from tests import command
from tests.environment_combinations import LEGAL, environment_of
from tests.environment_files import plan_of, text_of

Body = dict[str, Any]


def of(kind: str, name: str = "x", **fields: Any) -> Body:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


def sized(measure: str, number: int) -> Body:
    """An object of that measure."""
    match measure:
        case "object":
            empty = of("PrometheusRule", spec="")
            return {**empty, "spec": "a" * (number - len(json.dumps(empty, separators=(",", ":"))))}
        case "data":
            return of("ConfigMap", data={"key": "a" * (number - 3)})
        case "annotations":
            return of("Node", metadata={"annotations": {"key": "a" * (number - 3)}})
        case "name":
            return of("Namespace" if number < 100 else "Role", "a" * number)
        case "label":
            return of("Role", metadata={"labels": {"key": "a" * number}})
        case "files":
            files = {"key": "a" * (number - 3)}
            return {"release": "x", "namespace": "y", "chart": "z", "values": {"files": files}}
    raise NotImplementedError(measure)


BOUNDS = [(row.measure, row.most) for row in object_limits() if row.measure != "resources"]


@pytest.mark.parametrize(("measure", "most"), BOUNDS)
def test_a_bound_is_inclusive(measure: str, most: int) -> None:
    assert list(exceeded(ObjectSet.of("e", [sized(measure, most)]))) == []
    (found,) = exceeded(ObjectSet.of("e", [sized(measure, most + 1)]))
    assert (found.values["number"], found.values["most"]) == (most + 1, most)


def test_every_bound_has_a_source_and_bytes_are_counted() -> None:
    assert all(row.source and row.unit for row in object_limits())
    (found,) = exceeded(ObjectSet.of("e", [of("ConfigMap", data={"key": "é" * (1 << 19)})]))
    assert found.values["number"] == (1 << 20) + 3


def test_argo_cd_delivers_so_many_and_others_more() -> None:
    for engine in ("argocd", "pulumi"):
        it = next(it for it in LEGAL if it.delivery == engine and it.platform == "eks")
        bodies = [of("Role", f"r-{number}") for number in range(3001)]
        found = list(exceeded(ObjectSet.of("e", bodies, plan=plan_of(environment_of(it)))))
        assert [row.values["number"] for row in found] == ([3001] if engine == "argocd" else [])


def long(section: str, number: int) -> str:
    return f"{section}-{number:04}-" + "x" * 40


def large(tenants: int, priorities: int) -> Body:
    """An environment whose tenants may use so many priorities each."""
    environment = environment_of(next(it for it in LEGAL if it.platform == "eks"))
    environment["metadata"]["name"] = "large"
    levels = {"value": 1, "level": "low"}
    environment["priorities"] = [
        {**levels, "name": long("p", number), "value": -number} for number in range(priorities)
    ]
    environment["tenants"] = [
        {"name": f"t-{number}", "namespace": f"team-{number}", "maxPriority": long("p", 0)}
        for number in range(tenants)
    ]
    return environment


def validated(folder: Path, environment: Body) -> str:
    file = folder / "large.yaml"
    file.write_text(text_of(environment), encoding="utf-8")
    done = command.gpupool("validate", str(file), folder=folder)
    assert done.returncode == ("valid" not in done.stdout), done
    return done.stdout


def test_validate_names_the_section_that_makes_it_large(tmp_path: Path) -> None:
    printed = validated(tmp_path, large(400, 60))
    (line,) = printed.splitlines()
    assert " tenants: ConfigMap gpupool-system/gpupool-tenants: " in line
    assert " bytes in data; 1,048,576 are accepted; write fewer or shorter entries" in line
    assert validated(tmp_path, large(40, 60)) == "large: valid\n"


def test_files_for_kustomize_may_be_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server sees them, and they have no name; the engine's objects are among what is judged."""
    smallest = ObjectLimit("object", 0, "bytes as JSON", "a test")
    monkeypatch.setattr(limits, "object_limits", lambda: (smallest,))
    environment = environment_of(next(it for it in LEGAL if it.delivery == "flux" and it.platform == "eks"))
    loaded = check_shape(parse_source("random.yaml", text_of(environment).encode()))
    plan = resolve(loaded)
    judged = [finding.what.partition(": ")[0] for finding in beyond_limits(loaded, plan, generate(plan))]
    assert all(name.split()[1:] for name in judged)
    assert "Kustomization flux-system/gpupool-random-pools" in judged
