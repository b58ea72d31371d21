"""`gpupool mig` as a user runs it: exit codes, JSON contract, the picture."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner, Result

from gpupool.cli.mig import mig
from gpupool.findings import UsageError

app = typer.Typer()
app.command()(mig)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_a_layout_that_fits() -> None:
    result = run("a100-80gb", "3g.40gb=1", "2g.20gb=2", "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "gpu": "a100-80gb",
        "fits": True,
        "placement": [
            {"profile": "2g.20gb", "start": 0, "size": 2},
            {"profile": "2g.20gb", "start": 2, "size": 2},
            {"profile": "3g.40gb", "start": 4, "size": 4},
        ],
        "reason": "",
        "nearest": [],
    }


def test_a_layout_that_does_not() -> None:
    result = run("a100-80gb", "3g.40gb=2", "1g.10gb=1", "--format", "json")
    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert list(answer) == ["gpu", "fits", "placement", "reason", "nearest"]
    assert answer["fits"] is False
    assert answer["placement"] == []
    assert "9 memory slices" in answer["reason"]
    assert answer["nearest"][0] == {"profiles": {"3g.40gb": 2}}


def test_every_maximal_layout() -> None:
    result = run("a100-80gb", "--format", "json")
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert list(answer) == ["gpu", "maximal"]
    assert len(answer["maximal"]) == 44
    assert {"profiles": {"4g.40gb": 1, "3g.40gb": 1}} in answer["maximal"]


def test_text_leaves_variants_out_unless_asked() -> None:
    plain, full = run("a100-80gb"), run("a100-80gb", "--variants")
    assert "1g.10gb=7" in plain.stdout
    assert "16 more" in plain.stdout
    assert "+me=" not in plain.stdout
    assert "1g.10gb+me=1" in full.stdout
    assert len(full.stdout.splitlines()) > len(plain.stdout.splitlines())


def test_text_draws_the_placement() -> None:
    result = run("a100-80gb", "2g.20gb=2", "3g.40gb=1")
    assert result.exit_code == 0
    assert "| 2g.20gb | 2g.20gb | 3g.40gb           |" in result.stdout
    assert "nvidia.com/mig-3g.40gb" in result.stdout


def test_text_gives_the_reason_and_the_nearest_as_it_can_be_typed() -> None:
    result = run("a100-80gb", "3g.40gb=2", "1g.10gb=1")
    assert result.exit_code == 1
    assert "need 9 memory slices" in result.stdout
    assert "  3g.40gb=1 1g.10gb=4\n" in result.stdout


def test_inferred_placements_are_called_so() -> None:
    assert "none are published" in run("b200", "1g.23gb=7").stdout
    assert "none are published" not in run("h100-80gb", "1g.10gb=7").stdout


def test_a_gpu_without_mig() -> None:
    result = run("t4", "--format", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {"gpu": "t4", "maximal": []}
    assert "has no MIG" in run("t4").stdout
    assert "has no MIG" in run("t4", "1g.5gb=1").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a100",), "a100-40gb or a100-80gb"),
        (("a100-80gb", "3g.40gb"), "'3g.40gb' is not PROFILE=COUNT"),
        (("a100-80gb", "3g.40gb=one"), "is not PROFILE=COUNT"),
        (("a100-80gb", "=1"), "is not PROFILE=COUNT"),
        (("a100-80gb", "3g.40gb=0"), "with a count of 1 or more"),
        (("a100-80gb", "3g.40gb=-1"), "with a count of 1 or more"),
        (("a100-80gb", "3g.40gb=1.5"), "is not PROFILE=COUNT"),
        (("a100-80gb", "3g.40gb=²"), "is not PROFILE=COUNT"),
        (("a100-80gb", "3g.40gb=" + "9" * 5000), "is too many instances"),
        (("a100-80gb", "3g.40gb=1", "3g.40gb=1"), "3g.40gb is given twice"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], said: str) -> None:
    error = run(*arguments).exception
    assert isinstance(error, UsageError), "which leaves with code 2"
    assert said in str(error)


def test_the_picture_shows_what_stays_unused() -> None:
    said = run("a30", "2g.12gb=1", "1g.6gb+me=1").stdout
    assert "| 2g.12gb           |1g.6gb+me|/////////|" in said
    assert "Room for one more 1g.6gb." in said


def test_help_shows_an_example() -> None:
    assert "gpupool mig a100-80gb 3g.40gb=1 2g.20gb=2" in run("--help").stdout
