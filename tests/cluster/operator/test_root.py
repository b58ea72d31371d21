"""A program gets a folder as its root, for root and for an account that needs a user namespace for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool import shipped
from tests.programs import require

ANOTHER = 61_234
"""A uid that no account has."""


@pytest.fixture
def prepared() -> Iterator[tuple[Path, Path]]:
    """A folder with a kubeconfig, and a program linked statically that reads it; everybody may enter."""
    folder = Path(tempfile.mkdtemp(prefix="gpupool-root-"))
    root, program = folder / "root", folder / "kubectl"
    root.mkdir()
    (root / "kubeconfig").write_text("{apiVersion: v1, kind: Config, current-context: only-in-here}")
    shutil.copy(require("kubectl")["kubectl"], program)
    for path in (folder, root, program, root / "kubeconfig"):
        path.chmod(0o755)
    yield root, program
    shutil.rmtree(folder)


@pytest.mark.parametrize("account", [None, ANOTHER])
def test_a_program_reads_the_files_of_its_folder(prepared: tuple[Path, Path], account: int | None) -> None:
    if account is not None and os.geteuid() != 0:
        pytest.skip("only root can become another account")
    root, program = prepared
    arguments = ("config", "current-context", "--kubeconfig", "/kubeconfig")
    done = subprocess.run(
        shipped.command("gpupool.local.nvidia_operator.enter", str(root), str(program), *arguments),
        env={**os.environ, **shipped.variables(), "HOME": "/"},
        user=account,
        group=account,
        extra_groups=None if account is None else [],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "only-in-here\n"), done.stderr


def test_a_root_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing, program = tmp_path / "missing", require("kubectl")["kubectl"]
    done = subprocess.run(
        shipped.command("gpupool.local.nvidia_operator.enter", str(missing), str(program)),
        env={**os.environ, **shipped.variables()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert str(missing) in done.stderr
    assert "Traceback" not in done.stderr
