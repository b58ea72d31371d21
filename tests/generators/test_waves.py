"""Waves: nothing is applied before what it needs, in any shipped environment and by the tables themselves."""

from __future__ import annotations

import pytest

from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.spec.load import environment_names
from gpupool.generators import generate
from gpupool.generators.kinds import KINDS, OPERATORS, RELEASE, RELEASE_NEEDS, WAVES, WORKLOADS, kind_of
from gpupool.generators.manifest import Manifest
from gpupool.infra.apply import Dependencies


def place(manifest: Manifest) -> tuple[int, object]:
    """When a manifest is applied: its wave, and within it the order in which files are listed."""
    return (manifest.wave.number, manifest.key)


def judges_by(binding: Manifest, parameters: Manifest) -> bool:
    """A binding needs its own parameters; `gpupool.infra.apply`, which goes by kind, lets it wait for all."""
    wanted = binding.body["spec"].get("paramRef", {})
    return (wanted.get("namespace"), wanted.get("name")) == (parameters.namespace, parameters.name)


@pytest.mark.parametrize("name", environment_names())
def test_nothing_precedes_what_pulumi_lets_it_wait_for(name: str) -> None:
    made = generate(read_plan(name))
    dependencies = Dependencies(made)
    waited = [
        (manifest, other)
        for manifest in made
        for other in dependencies.of(manifest)
        if not (manifest.kind == "ValidatingAdmissionPolicyBinding" and other.kind == "ConfigMap")
        or judges_by(manifest, other)
    ]
    assert waited
    for manifest, other in waited:
        assert place(other) < place(manifest), f"{manifest} before {other}"


def test_releases_come_after_what_they_need_and_before_what_needs_them() -> None:
    # The operator's own ConfigMaps are in the wave of the releases: their pods wait for them (kubelet).
    assert all(kind_of(name).wave.number < OPERATORS.number for name in RELEASE_NEEDS)
    for kind in KINDS:
        if RELEASE in kind.needs:
            assert kind.wave.number > OPERATORS.number, kind


def test_kinds_without_a_wave_come_last() -> None:
    strange = Manifest({"apiVersion": "v1", "kind": "Strange", "metadata": {"name": "x"}})
    assert strange.wave is WORKLOADS is max(WAVES, key=lambda wave: wave.number)


def test_waves_sort_alike_by_number_and_by_name_and_have_every_kind_once() -> None:
    assert list(WAVES) == sorted(WAVES, key=str) == sorted(WAVES, key=lambda wave: wave.number)
    assert len({wave.number for wave in WAVES}) == len(WAVES)
    assert sorted(kind.name for kinds in WAVES.values() for kind in kinds) == sorted({k.name for k in KINDS})


def test_what_judges_goes_before_what_is_judged() -> None:
    """A quota that grows with its pools is judged by the new parameters, or nothing behind it is applied."""
    made = list(generate(read_plan("prod")))
    judges = [m for m in made if m.kind.startswith("Validating") or m.namespace == "gpupool-system"]
    parameters = [m for m in judges if m.kind == "ConfigMap"]
    judged = [m for m in made if m.kind in ("ResourceQuota", "LimitRange", "NetworkPolicy", "NodePool")]
    assert parameters
    assert judged
    assert max(map(place, parameters)) < min(map(place, judged))


def test_every_manifest_is_in_one_wave() -> None:
    made = generate(read_plan("prod"))
    sorted_into = made.by_wave()
    assert list(sorted_into) == list(WAVES)
    found = [manifest for manifests in sorted_into.values() for manifest in manifests]
    assert len(found) == len(made.manifests)
    rules = ("PrometheusRule", "GrafanaDashboard")
    operators = [m for m in sorted_into[OPERATORS] if m.kind not in rules]
    assert {m.namespace for m in operators} == {"gpu-operator"}
