"""A program gets a folder as its root, for root and for an account that needs a user namespace for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.environment import shipped
from tests.required_programs import require

ANOTHER = 61_234
"""A uid that no account has."""
AS_ANOTHER = """
import os, sys
from gpupool.local.nvidia_operator import enter
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
enter.main(*sys.argv[2:])
"""
"""Python may lie where the account can't read: it has been loaded before."""


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


def test_a_program_reads_the_files_of_its_folder(prepared: tuple[Path, Path]) -> None:
    assert entered(shipped.command("gpupool.local.nvidia_operator.enter"), *prepared) == "only-in-here\n"


def test_another_account_needs_no_rights_for_it(prepared: tuple[Path, Path]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another account")
    assert entered([sys.executable, "-P", "-c", AS_ANOTHER, str(ANOTHER)], *prepared) == "only-in-here\n"


def entered(command: list[str], root: Path, program: Path) -> str:
    """What the program prints in there."""
    arguments = ("config", "current-context", "--kubeconfig", "/kubeconfig")
    done = subprocess.run(
        [*command, str(root), str(program), *arguments],
        env={**os.environ, **shipped.variables(), "HOME": "/"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


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
