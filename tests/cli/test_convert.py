"""`gpupool convert` as a user runs it: where the file goes, where the list, exit codes, hostile input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpupool.cli.convert import environment_name
from gpupool.findings import UsageError
from tests.command import gpupool

CASES = Path(__file__).parents[1] / "golden" / "convert"
SOUND = CASES / "provisioner" / "input" / "gpu.yaml"
PLUGIN = CASES / "plugin-alone" / "input" / "plugin.yaml"


def test_the_file_goes_to_stdout_and_the_list_to_stderr(tmp_path: Path) -> None:
    done = gpupool("convert", str(SOUND), "--name", "prod", folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("# yaml-language-server")
    assert "metadata: {name: prod}" in done.stdout
    assert "spec.weight" in done.stderr
    assert " left" in done.stderr.splitlines()[-1]


def test_what_is_written_validates_and_is_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "environments" / "prod.yaml"
    assert gpupool("convert", str(SOUND), "--output", str(file), folder=tmp_path).returncode == 0
    assert gpupool("validate", "prod", folder=tmp_path).stdout == "prod: valid\n"
    before = file.read_text(encoding="utf-8")
    again = gpupool("convert", str(PLUGIN), "--output", str(file), folder=tmp_path)
    assert (again.returncode, file.read_text(encoding="utf-8")) == (2, before)
    assert "--force" in again.stderr
    replaced = gpupool("convert", str(PLUGIN), "--output", str(file), "--force", folder=tmp_path)
    assert (replaced.returncode, "left out: 1" in replaced.stderr) == (1, True), "a pool of it is left out"
    assert file.read_text(encoding="utf-8") != before
    assert [path.name for path in file.parent.iterdir()] == ["prod.yaml"], "no partial file stays"


def test_json_has_all_of_it(tmp_path: Path) -> None:
    done = gpupool("convert", str(SOUND.parent), "--format", "json", folder=tmp_path)
    answer = json.loads(done.stdout)
    assert list(answer) == [
        *("output", "environment", "valid", "platform", "pools", "values", "leftOut", "findings")
    ]
    assert answer["platform"] == "eks"
    assert {"severity", "category", "code", "message", "remediation", "value"} <= answer["findings"][0].keys()


def test_strict_is_for_ci(tmp_path: Path) -> None:
    assert gpupool("convert", str(SOUND), "--strict", folder=tmp_path).returncode == 1


def test_a_gpu_can_be_named(tmp_path: Path) -> None:
    done = gpupool("convert", str(PLUGIN), "--gpu", "dgx=h100-80gb", "--max", "4", folder=tmp_path)
    assert "gpu: h100-80gb" in done.stdout
    assert "max: 4" in done.stdout
    wrong = gpupool("convert", str(PLUGIN), "--gpu", "dgx=h1000", folder=tmp_path)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "did you mean" in wrong.stderr


def test_standard_input(tmp_path: Path) -> None:
    text = SOUND.read_text(encoding="utf-8")
    done = gpupool("convert", "-", folder=tmp_path, text=text)
    assert done.returncode == 0
    assert "gpu-training-a100-80gb" in done.stdout


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("a: [b", 1, "not YAML"),
        ("a: 1\na: 2\n", 1, "twice"),
        ("\x00", 1, "U+0000"),
        ("", 1, "empty; name a file"),
        ("hello: world\n", 1, "not part of a GPU pool"),
        ("[" * 5000, 1, "nested"),
        ("kind: NodePool\napiVersion: karpenter.sh/v1\nspec: 5\n", 1, "not a GPU pool"),
    ],
)
def test_hostile_input_is_an_answer(text: str, code: int, word: str, tmp_path: Path) -> None:
    done = gpupool("convert", "-", folder=tmp_path, text=text)
    assert done.returncode == code
    assert word in done.stderr


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--name", "Not A Name"), "not a valid environment name"),
        (("--platform", "gke"), "unknown platform"),
        (("--output", "a.yaml", "--name", "b"), "use one name for both"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], word: str, tmp_path: Path) -> None:
    done = gpupool("convert", str(SOUND), *arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert word in done.stderr


def test_a_folder_without_files(tmp_path: Path) -> None:
    done = gpupool("convert", str(tmp_path), folder=tmp_path)
    assert done.returncode == 2
    assert "no YAML or JSON files" in done.stderr


def test_import_names_the_cluster_that_it_can_not_reach(tmp_path: Path) -> None:
    done = gpupool("import", "prod", "--context", "nowhere", folder=tmp_path)
    assert done.returncode == 1
    assert "kube" in done.stderr
    both = gpupool("import", "prod", "--context", "a", "--local", folder=tmp_path)
    assert both.returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("convert", ""),
        ("convert", str(SOUND), "--name", ""),
        ("import", ""),
        ("local", "status", "--dir", ""),
    ],
)
def test_an_empty_argument_is_wrong_use(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """As a path it would be the current folder, as a name none at all."""
    done = gpupool(*arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the last argument is empty; give a value or omit it" in done.stderr


def test_an_empty_name_is_no_name() -> None:
    with pytest.raises(UsageError, match="'' is not a valid environment name"):
        environment_name("", Path("prod.yaml"))
