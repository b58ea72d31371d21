"""`gpupool catalog` as a user runs it."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner, Result

from gpupool.cli.catalog import catalog
from gpupool.environment.catalog.load import load_catalog
from gpupool.findings import UsageError

app = typer.Typer()
app.command()(catalog)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_the_list_has_every_model_on_a_line() -> None:
    result = run()
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(load_catalog().models)
    assert "USD/GPU-H" in lines[0]
    (a100,) = [line for line in lines if line.startswith("a100-80gb")]
    assert "yes" in a100
    assert "p4de.24xlarge" in a100
    assert a100.endswith("3.43")


@pytest.mark.parametrize("key", load_catalog().models)
def test_every_model_can_be_shown(key: str) -> None:
    text = run(key)
    assert text.exit_code == 0
    model = load_catalog()[key]
    assert model.title in text.stdout
    assert "Sources" in text.stdout
    shown = json.loads(run(key, "--format", "json").stdout)
    assert shown["gpu"] == key
    assert [one["name"] for one in shown["instanceTypes"]] == [one.name for one in model.instance_types]
    assert (shown["mig"] is None) == (model.mig is None)


def test_one_model_shows_its_mig_table_and_marks_what_is_inferred() -> None:
    text = run("b200").stdout
    assert "1g.23gb+me" in text
    assert "start positions inferred" in text
    assert "mig.profiles.starts (inferred)" in text


def test_list_and_one_have_the_same_shape_for_machines() -> None:
    every = json.loads(run("--format", "json").stdout)["gpus"]
    assert json.loads(run("t4", "--format", "json").stdout) in every


def test_an_unknown_gpu_is_wrong_use() -> None:
    error = run("a100").exception
    assert isinstance(error, UsageError), "which leaves with code 2"
    assert "a100-40gb or a100-80gb" in str(error)


def test_help_shows_an_example() -> None:
    assert "gpupool catalog h100-80gb" in run("--help").stdout
