"""`gpupool serve`: options that don't go together are refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import gpupool


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--role", "cook"), "unknown role cook; roles: "),
        (("--kubeconfig", "k", "--in-cluster"), "give --kubeconfig or --in-cluster, not both"),
        (("--as", "ada"), "--as ada: add --kubeconfig or --in-cluster"),
        (("--purge",), "--purge removes a stopped queue's data; add --stop"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = gpupool("serve", "local", *arguments, "--background", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
