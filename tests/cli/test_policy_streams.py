"""`gpupool policy check` where its answer can't be written as usual, or where somebody ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gpupool.cli.progress import QUIET_VARIABLE
from tests.cli.test_policy import POLICY, UNOWNED

GPUPOOL = Path(sys.executable).with_name("gpupool")

SLOW = """
  - expression: >-
      [0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c,
      [0,1,2,3,4,5,6,7,8,9].all(d, a + b + c + d >= 0))))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "guards.yaml").write_text(POLICY)
    (tmp_path / "stray.yaml").write_text(UNOWNED.replace("name: stray", 'name: "strüy"'))
    return tmp_path


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full here")
@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize("verb", [["check", "stray.yaml", "--policies", "guards.yaml"], ["test", "."]])
def test_an_answer_that_can_not_be_written_is_said(place: Path, verb: list[str], output: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [str(GPUPOOL), "policy", *verb, "--format", output],
            cwd=place,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "can't write the output: No space left on device; write it elsewhere\n"


@pytest.mark.parametrize("output", ["text", "github", "json", "sarif", "junit"])
def test_a_terminal_without_umlauts_ends_nothing(place: Path, output: str) -> None:
    done = subprocess.run(
        [str(GPUPOOL), "policy", "check", "stray.yaml", "--policies", "guards.yaml", "-o", output],
        cwd=place,
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, b"")
    if output in ("json", "sarif"):
        assert "strüy" in str(json.loads(done.stdout))
    elif output == "junit":
        assert "strüy" in ElementTree.tostring(ElementTree.fromstring(done.stdout), encoding="unicode")
    else:
        assert b"str\\xfcy" in done.stdout


@pytest.mark.parametrize(
    ("objects", "quiet_s"),
    [(5_000, "0.5"), (30_000, "2")],
    ids=["one process", "several processes"],
)
def test_an_interrupted_check_ends_without_a_word(place: Path, objects: int, quiet_s: str) -> None:
    """While it judges, which takes minutes."""
    text = POLICY.replace("  validations:\n", f"  validations:{SLOW}", 1)
    (place / "guards.yaml").write_text(text)
    rows = [f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{n}}}\n" for n in range(objects)]
    (place / "many.yaml").write_text("---\n".join(rows))
    running = subprocess.Popen(
        [str(GPUPOOL), "policy", "check", "many.yaml", "--policies", "guards.yaml"],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, QUIET_VARIABLE: quiet_s},
        start_new_session=True,
    )
    assert running.stderr
    said = b"nothing yet"
    while b"checking" not in said:
        assert said, "it was done before anybody looked"
        said = running.stderr.readline()
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does
    out, err = running.communicate()
    assert running.returncode == 130
    assert (out, err) == (b"", b"")
