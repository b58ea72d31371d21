"""Where hand-written settings leave open what was meant: asked for rather than guessed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpupool.adopt.convert.convert import Conversion, convert
from gpupool.adopt.convert.documents import parse_documents
from gpupool.adopt.convert.draft import Choices

PAIR = Path(__file__).parents[2] / "golden" / "convert" / "spot-pair" / "input" / "pools.yaml"
BUDGET = "consolidateAfter: 10m"


def converted(text: str, **gpus: str) -> Conversion:
    documents, findings = parse_documents("x.yaml", text.encode())
    assert not findings
    return convert(documents, Choices(sources=("x.yaml",), gpus=gpus))


def layout(mig_devices: str, **fields: str) -> str:
    entry = {"devices": "all", "mig-enabled": "true", "mig-devices": mig_devices, **fields}
    body = ", ".join(f"{key}: {value}" for key, value in entry.items())
    return f"version: v1\nmig-configs:\n  eighths:\n    - {{{body}}}\n"


def said(result: Conversion, kind: str) -> str:
    return "\n".join(str(entry) for entry in result.leftovers if entry.category == kind)


def test_a_layout_that_fits_no_gpu_asks_which_one_was_meant() -> None:
    todo = said(converted(layout("{1g.10gb: 8}")), "todo")
    assert "does not fit any GPU with its profiles: a100-40gb, a100-80gb, h100-80gb;" in todo
    assert "--gpu eighths=KEY" in todo
    wrong = said(converted(layout("{1g.10gb: 8}"), eighths="h100-80gb"), "wrong")
    assert "8 x 1g.10gb requested, but one GPU has at most 7" in wrong


@pytest.mark.parametrize(
    ("text", "gpu"),
    [
        (layout("{1g.10gb: 8}", **{"device-filter": "['0x233010DE']"}), "NVIDIA H100 80 GB"),
        (layout("{3g.20gb: 3}"), "NVIDIA A100 40 GB"),
        (layout("{1g.6gb: 5}"), "NVIDIA A30"),
    ],
)
def test_one_that_only_one_gpu_can_be_meant_by_is_wrong_on_that(text: str, gpu: str) -> None:
    assert f"on the {gpu}: " in said(converted(text), "wrong")


def test_a_layout_that_no_gpu_has_names_none() -> None:
    wrong = said(converted(layout("{9g.99gb: 1}")), "wrong")
    assert "no GPU in the catalog has all of its profiles" in wrong


def pair(on_demand: str, spot: str) -> str:
    first, second = PAIR.read_text(encoding="utf-8").split("---\n")
    parts = [
        part.replace(BUDGET, f"{BUDGET}, budgets: {budgets}" if budgets else BUDGET)
        for part, budgets in ((first, on_demand), (second, spot))
    ]
    assert BUDGET in first
    assert BUDGET in second
    return "---\n".join(parts)


@pytest.mark.parametrize(
    ("on_demand", "spot", "half"),
    [("[{nodes: '2'}]", "", "research-spot"), ("", "[{nodes: '2'}]", "research"), ("", "", None)],
)
def test_halves_are_one_pool_where_one_alone_has_budgets(on_demand: str, spot: str, half: str | None) -> None:
    result = converted(pair(on_demand, spot))
    (pool,) = yaml.safe_load(result.text)["pools"]
    assert pool["nodes"]["spotShare"] == 0.7
    assert pool.get("maintenance", {}).get("maxUnavailable") == (2 if half else None)
    reported = [str(entry) for entry in result.leftovers if "those of the other NodePool apply" in str(entry)]
    assert len(reported) == (half is not None)
    assert half is None or f"NodePool {half}:" in reported[0]


def test_halves_with_other_budgets_are_two_pools() -> None:
    result = converted(pair("[{nodes: '3'}]", "[{nodes: '2'}]"))
    assert len(yaml.safe_load(result.text)["pools"]) == 2
