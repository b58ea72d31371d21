"""What `gpupool init` writes: right by gpupool's own checks, for every platform and GPU, and never twice."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool import __version__
from gpupool.adopt.start.files import Answers, files, write
from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.plan.resolve import findings_of
from gpupool.environment.schema.published import FILE
from gpupool.findings import GpupoolError, UsageError

GPUPOOL = Path(sys.executable).with_name("gpupool")
LOCAL = Answers("dev", "local", "t4")


@pytest.mark.parametrize("platform", ["local", "eks", "static"])
def test_environments_of_every_gpu_are_fine(platform: Any, tmp_path: Path) -> None:
    for key, model in load_catalog().models.items():
        if platform != "static" and not any(kind.karpenter for kind in model.instance_types):
            continue
        folder = tmp_path / key
        write(folder, files(Answers(f"env-{key.replace('.', '-')}", platform, key)))
        [path] = folder.glob("environments/*.yaml")
        assert [str(finding) for finding in findings_of(path)] == []


def test_the_environment_says_where_its_schema_is() -> None:
    published = json.loads(FILE.read_text(encoding="utf-8"))["$id"]
    for platform in ("local", "eks", "static"):
        text = files(Answers("dev", platform, "t4"))["environments/dev.yaml"]
        assert text.partition("\n")[0] == f"# yaml-language-server: $schema={published}"


def test_a_second_run_keeps_every_byte(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    first = write(tmp_path, files(LOCAL))
    assert first.kept == (".gitignore",)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    second = write(tmp_path, files(Answers("dev", "eks", "a10g")))
    assert second.written == ()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert (tmp_path / ".gitignore").read_text() == "mine\n"


def test_a_link_that_leads_nowhere_is_kept(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").symlink_to("elsewhere.yaml")
    assert "Pulumi.yaml" in write(tmp_path, files(LOCAL)).kept
    assert not (tmp_path / "elsewhere.yaml").exists()


def test_a_file_in_the_place_of_a_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "policies").write_text("")
    with pytest.raises(GpupoolError, match=r"policies: is a file but must be a folder, for README\.md"):
        write(tmp_path, files(LOCAL))


def test_ci_calls_the_workflow_beside_it() -> None:
    made = files(LOCAL)
    job = yaml.safe_load(made[".github/workflows/gpu-pools.yaml"])["jobs"]["gpupool"]
    workflow = yaml.safe_load(made[job["uses"].removeprefix("./")])
    inputs = workflow[True]["workflow_call"]["inputs"]
    assert set(job["with"]) <= set(inputs)
    assert inputs["requirements"]["default"] in made


LOCK = (Path(__file__).parents[3] / "requirements.lock").read_text(encoding="utf-8")
SHA256 = "0123456789abcdef" * 4
HASHED = {"hashes": {"sha256": SHA256}}


@pytest.mark.parametrize(
    ("noted", "line"),
    [
        (
            {"url": "https://files.example.org/a/gpupool-0.1.0-py3-none-any.whl", "archive_info": HASHED},
            "{0} @ https://files.example.org/a/{1}-0.1.0-py3-none-any.whl",
        ),
        (
            {"url": "file:///some%20where/gpupool-0.1.0%2Bours-py3-none-any.whl", "archive_info": HASHED},
            "./{1}-0.1.0+ours-py3-none-any.whl",
        ),
        # A wheel of another hash than sha256, a source distribution, a checkout, a commit, an index.
        ({"url": "https://files.example.org/gpupool-0.1.0-py3-none-any.whl", "archive_info": {}}, ""),
        ({"url": "https://files.example.org/gpupool-0.1.0.tar.gz", "archive_info": HASHED}, ""),
        ({"url": "file:///src/gpupool", "dir_info": {"editable": True}}, ""),
        ({"url": "https://git.example.org/g.git", "vcs_info": {"vcs": "git", "commit_id": "0" * 40}}, ""),
        (None, ""),
    ],
)
def test_what_ci_installs_has_hashes_and_never_a_bare_name(
    noted: dict[str, Any] | None, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`noted` is what pip notes beside an installed distribution (PEP 610)."""
    names = ("vapcheck", "gpupool", "gpupool-queue")
    for name in names:
        info = tmp_path / f"{name.replace('-', '_')}-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
        if noted is not None:
            text = json.dumps(noted).replace("gpupool", name.replace("-", "_"))
            (info / "direct_url.json").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    made = files(LOCAL)["requirements-gpupool.txt"]
    assert made.endswith(LOCK)
    lines = [text for text in made.removesuffix(LOCK).splitlines() if not text.startswith("#")]
    made_of = [(name, name.replace("-", "_")) for name in names]
    assert lines == [f"{line.format(*name)} --hash=sha256:{SHA256}" for name in made_of if line]
    if not line:
        assert f"pip hash gpupool-{__version__}-py3-none-any.whl" in made


def test_the_policy_that_the_readme_shows_is_proved_by_its_fixtures(tmp_path: Path) -> None:
    write(tmp_path, files(LOCAL))
    folder = tmp_path / "policies"
    policy, good = re.findall(r"```yaml\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    fixtures = folder / "fixtures" / "jobs-have-an-owner"
    fixtures.mkdir(parents=True)
    (folder / "jobs-have-an-owner.yaml").write_text(policy)
    (fixtures / "good.yaml").write_text(good)
    assert good.count(", labels: {owner: research}") == 1
    (fixtures / "bad.yaml").write_text(good.replace(", labels: {owner: research}", ""))
    command = [str(GPUPOOL), "policy", "test", "-k", "owner"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "2 fixtures" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        (Answers("Dev Env", "local", "t4"), "--name Dev Env: "),
        (Answers("../dev", "local", "t4"), "--name ../dev: "),
        (Answers("dev", "local", "t5"), "--gpu t5: "),
        (
            Answers("dev", "eks", "rtx-4090"),
            "--gpu rtx-4090: Karpenter can start no AWS machine with the NVIDIA GeForce RTX 4090",
        ),
    ],
)
def test_wrong_answers_are_reported(answers: Answers, text: str) -> None:
    with pytest.raises(UsageError) as error:
        files(answers)
    assert str(error.value).startswith(text)
    assert "; " in str(error.value)
