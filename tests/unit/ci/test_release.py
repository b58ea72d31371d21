"""What `make release` writes and refuses; what it builds is in tests/cluster/wheel/test_release.py."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from tests.releases import load

ROOT = Path(__file__).parents[3]
NOT_THE_VERSION = ("tests/", "CHANGELOG.md", "docs/releases.md", "docs/upgrade.md", "examples/", "tools/")
"""Where a version of gpupool's that happens to be the present one is an example, or history."""


@pytest.fixture
def release(tmp_path: Path) -> ModuleType:
    """The tool, in a copy of what it writes."""
    module = load(ROOT)
    for name in (*module.PLACES, "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    vars(module).update(
        ROOT=tmp_path, CHANGELOG=tmp_path / "CHANGELOG.md", REFERENCE=tmp_path / "docs" / "reference.md"
    )
    text = module.CHANGELOG.read_text().replace(
        "## Unreleased\n", "## Unreleased\n\n- Something that users notice.\n", 1
    )
    module.CHANGELOG.write_text(text)
    return module


def higher(release: ModuleType) -> str:
    return f"{int(release.present().split('.')[0]) + 1}.0.0"


def test_every_place_of_the_version_is_known() -> None:
    release = load(ROOT)
    pattern = re.compile(rf"(gpupool\S*[-:@ ]|[Vv]ersion\W+){re.escape(release.present())}(?![\d.])")
    tracked = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    files = [name for name in tracked if not name.startswith(NOT_THE_VERSION) and not name.endswith(".lock")]
    texts = {name: (ROOT / name).read_text(errors="replace") for name in files if (ROOT / name).is_file()}
    naming = {name for name, text in texts.items() if pattern.search(text)}
    assert naming - set(release.PLACES) == set()


def test_a_version_is_written_everywhere(release: ModuleType) -> None:
    old, new = release.present(), higher(release)
    written = release.write_version(new, "2031-02-03")
    assert release.present() == new
    for name in written:
        text = (release.ROOT / name).read_text()
        assert release.exactly(new).search(text), name
        assert name == "CHANGELOG.md" or not release.exactly(old).search(text), name
    reference = release.REFERENCE.read_text()
    assert f"| {new.removesuffix('.0')} |" in reference
    assert "| unreleased |" not in reference
    changelog = release.CHANGELOG.read_text()
    assert f"## Unreleased\n\n## {new} (2031-02-03)\n\n- Something that users notice." in changelog


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("0.0.1", "does not come after"),
        ("v9.0.0", "is no version"),
        ("9.0", "is no version"),
        ("9.0.0rc1", "is no version"),
    ],
)
def test_what_is_no_next_version_changes_nothing(release: ModuleType, version: str, why: str) -> None:
    before = {path: path.read_text() for path in release.ROOT.rglob("*") if path.is_file()}
    with pytest.raises(release.ReleaseError, match=why):
        release.write_version(version, "2031-02-03")
    assert before == {path: path.read_text() for path in release.ROOT.rglob("*") if path.is_file()}


def test_without_anything_to_tell_there_is_no_release(release: ModuleType) -> None:
    release.CHANGELOG.write_text("# Changelog\n\n## Unreleased\n\n## 0.0.1 (2020-01-01)\n\n- Old.\n")
    with pytest.raises(release.ReleaseError, match="nothing under Unreleased"):
        release.write_version(higher(release), "2031-02-03")


def packed(names: list[str], mtime: int, owner: str, mode: int) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uname, member.mode = 3, mtime, owner, mode
            archive.addfile(member, io.BytesIO(b"abc"))
    return target.getvalue()


def test_archives_of_the_same_files_are_the_same() -> None:
    normalised = load(ROOT).normalised
    first = normalised(packed(["b", "a"], 5, "ann", 0o664), 1_800_000_000)
    second = normalised(packed(["a", "b"], 7, "bob", 0o600), 1_800_000_000)
    assert first == second
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        assert [(member.name, member.mode, member.uname, member.mtime) for member in archive] == [
            ("a", 0o644, "", 1_800_000_000),
            ("b", 0o644, "", 1_800_000_000),
        ]
