"""NVIDIA's own mig-parted (v0.13.1) applies the layouts that gpupool renders, and refuses those it refuses.

The GPU is nvml.c: instances begin at the first free place of those that the catalog lists. For three cards
these are compared with NVIDIA's own mock GPUs too; its H100, H200 and B200 are wrong (a 3g has three memory
slices there), so no others.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.catalog.models import GpuModel
from gpupool.environment.sharing import verdict
from gpupool.environment.sharing.placement import feasible
from gpupool.programs.binaries import TOOLS
from tests import go
from tests.nvidia import cases
from tests.nvidia.node import MIG_PARTED, Cards, Node, constant
from tests.required_programs import absent

Layout = Mapping[str, int]
MODELS = {key: model for key, model in load_catalog().models.items() if model.mig is not None}
MOCKED = ("a100-40gb", "a100-80gb", "a30")
"""Cards that go-nvml v0.13.4-1 has right."""


JUDGED = (*MOCKED, "rtx-pro-4500", "rtx-pro-5000", "rtx-pro-6000")
"""Cards of which every request is tried: the placements of all others are those of the A100."""
FEW = ("a30", "rtx-pro-4500", "rtx-pro-5000")
"""Those of which requests with variants of profiles (+me, -me, +gfx) are tried as well."""


def _requests() -> list[tuple[str, Layout]]:
    """Every set of instances that fits, and with one more those that don't."""
    found = []
    for key in JUDGED:
        model = MODELS[key]
        assert model.mig is not None
        names = [profile.name for profile in model.mig.profiles]
        fits = feasible(model.mig)
        more = {
            (*counts[:at], counts[at] + 1, *counts[at + 1 :]) for counts in fits for at in range(len(names))
        }
        for counts in sorted(fits | more):
            layout = {name: count for name, count in zip(names, counts, strict=True) if count}
            if layout and (key in FEW or not any("+" in name or "-" in name for name in layout)):
                found.append((key, layout))
    return found


REQUESTS = _requests()


def _named(request: tuple[str, Layout]) -> str:
    return f"{request[0]}-" + ",".join(f"{count}x{name}" for name, count in request[1].items())


def apply(node: Node, model: GpuModel, text: str, config: str) -> list[Layout] | str:
    """The instances of each GPU after `config` of a file was applied, or what mig-parted said."""
    node.fit(Cards(model, (None,) * cases.GPUS), "")
    (node.root / "config/mig.yaml").write_text(text)
    command = node.command(
        MIG_PARTED, "apply", "--config-file=/config/mig.yaml", f"--selected-config={config}"
    )
    done = subprocess.run(
        command, env=node.environment(None), capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode != 0:
        return done.stderr
    assert model.mig is not None
    names = {constant(model.mig, profile): profile.name for profile in model.mig.profiles}
    made: list[Counter[str]] = [Counter() for _ in range(cases.GPUS)]
    for line in (node.root / "out/instances").read_text().splitlines():
        gpu, profile, _ = map(int, line.split())
        made[gpu][names[profile]] += 1
    return [dict(layout) for layout in made]


@pytest.mark.parametrize("case", [one for one in cases.every_case() if one.pool.mig_config], ids=str)
def test_a_rendered_layout_is_applied(mig_node: Node, case: cases.Case) -> None:
    assert case.pool.mig_config is not None
    made = apply(mig_node, case.pool.gpu, case.mig_configs, case.pool.mig_config)
    assert made == [case.pool.sharing.layout] * cases.GPUS


@pytest.mark.parametrize("request_", REQUESTS, ids=_named)
def test_it_is_of_one_mind_with_our_placement(mig_node: Node, request_: tuple[str, Layout]) -> None:
    key, layout = request_
    entry = {"devices": [0], "mig-enabled": True, "mig-devices": layout}
    text = yaml.safe_dump({"version": "v1", "mig-configs": {"asked": [entry]}})
    made = apply(mig_node, MODELS[key], text, "asked")
    if verdict(MODELS[key], layout).fits:
        assert made == [layout, {}]
    else:
        assert isinstance(made, str), made
        assert "all orderings failed" in made


def test_all_is_disabled(mig_node: Node) -> None:
    case = next(one for one in cases.every_case() if one.pool.mig_config)
    mig_node.fit(Cards(case.pool.gpu, (case.pool.sharing.layout,) * cases.GPUS), "")
    (mig_node.root / "config/mig.yaml").write_text(case.mig_configs)
    words = ("apply", "--config-file=/config/mig.yaml", "--selected-config=all-disabled")
    command = mig_node.command(MIG_PARTED, *words)
    done = subprocess.run(
        command, env=mig_node.environment(None), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (mig_node.root / "out/instances").read_text() == ""


def test_a_profile_of_another_card_does_nothing_and_is_called_a_success(mig_node: Node) -> None:
    """Why the name of a profile is checked before it is rendered (mig-parted, pkg/types/mig_config.go)."""
    entry = {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 7}}
    text = yaml.safe_dump({"version": "v1", "mig-configs": {"asked": [entry]}})
    mig_node.fit(Cards(MODELS["a100-80gb"], (None,)), "")
    (mig_node.root / "config/mig.yaml").write_text(text)
    command = mig_node.command(MIG_PARTED, "apply", "-f", "/config/mig.yaml", "-c", "asked")
    done = subprocess.run(
        command, env=mig_node.environment(None), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "MIG configuration applied successfully\n"), done.stderr
    assert not (mig_node.root / "out/instances").exists()
    assert "1g.5gb" in verdict(MODELS["a100-80gb"], {"1g.5gb": 7}).reason


@pytest.mark.parametrize("key", MOCKED)
def test_the_catalog_has_the_profiles_of_the_mock(key: str) -> None:
    if shutil.which("go") is None:
        absent("no Go, which runs go-nvml's mock")
    mocked = go.run(Path("."), None, TOOLS / "go-nvml")[key]
    mig = MODELS[key].mig
    assert mig is not None
    assert {str(constant(mig, profile)) for profile in mig.profiles} == mocked.keys()
    for profile in mig.profiles:
        card = mocked[str(constant(mig, profile))]
        assert (profile.compute_slices, profile.max_count) == (card["slices"], card["most"]), profile.name
        assert (list(profile.starts), profile.size) == (card["starts"], card["size"]), profile.name
        assert profile.sm == card["sm"], profile.name
        assert profile.memory_gib is not None
        # The mock's A30 has 2% to 3.1% less than what cards say.
        assert abs(profile.memory_gib * 1024 - card["mib"]) < 0.04 * card["mib"], profile.name
