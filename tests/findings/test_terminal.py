"""Text of other people at a terminal: shown, never obeyed; in a pipe or a file as it is."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpupool.findings.terminal import BOLD, PLAIN, visible
from tests.terminal import GPUPOOL, sent_to_a_terminal

ROOT = Path(__file__).parents[2]
HOSTILE = {
    "title": "\x1b]0;owned\x07",
    "clear": "\x1b[2J\x1b[H",
    "clipboard": "\x1b]52;c;cm0gLXJmIC8K\x07",
    "C1": "\x9b2J\x9d0;owned\x9c",
    "another line": "fine\rrefused",
    "backspace": "deny\x08\x08\x08\x08fine",
    "bidi": "\u202egpj.exe\u2066",
    "concealed": "\x1b[8mhidden",
    "delete": "a\x7fb",
    "separator": "a\u2028b\u0085c",
}
"""What somebody puts into a name or an output."""
OURS = re.compile(r"\x1b\[(0|1|31|32|33|36)m|\r\x1b\[K|\r(?=\n)")
"""Our own styles, the line of progress, and the terminal's own line breaks."""


def is_obeyed(character: str) -> bool:
    return (
        unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        and character not in "\n\t\u200c\u200d"
    )


def assert_harmless(sent: str) -> None:
    rest = OURS.sub("", sent)
    assert not [character for character in rest if is_obeyed(character)], ascii(sent)


@given(st.text())
def test_what_is_visible_is_obeyed_by_no_terminal(text: str) -> None:
    shown = visible(text)
    assert not any(map(is_obeyed, shown))
    assert visible(shown) == shown


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_shown(text: str) -> None:
    assert_harmless(visible(text))


def test_names_in_files_and_arguments(tmp_path: Path) -> None:
    text = "".join(HOSTILE.values())
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod{text}", "namespace": "team-vision"},
        "spec": {
            "containers": [{"name": "main", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}]
        },
    }
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))
    (tmp_path / "environment.yaml").write_text(yaml.safe_dump({"apiVersion": text, text: 1}))
    commands = (
        ("policy", "check", "pod.yaml"),
        ("validate", "environment.yaml"),
        ("validate", f"no{text}such"),
        ("mig", text),
        (f"--{text}",),
        ("convert", "pod.yaml", "environment.yaml"),
    )
    for command in commands:
        sent = sent_to_a_terminal(*command, folder=tmp_path)
        assert_harmless(sent)
        assert "Traceback" not in sent


def test_our_own_styles_reach_a_terminal_and_no_pipe(tmp_path: Path) -> None:
    assert "\x1b[31m" in sent_to_a_terminal("mig", "none-such", folder=tmp_path)
    piped = subprocess.run(
        [GPUPOOL, "validate", "no\x1b[2Jsuch"], capture_output=True, text=True, check=False
    )
    assert "no\\x1b[2Jsuch" in piped.stderr
    assert "\x1b[31m" not in piped.stderr


BYTES = """
import sys, click, typer
from gpupool.findings import terminal
terminal.protect()
for text in sys.argv[1:]:
    typer.echo(text)
    click.echo(text, err=True)
    sys.stdout.buffer.write(text.encode() + b"\\n")
    sys.stdout.buffer.flush()
"""


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_libraries_that_write_bytes_are_no_way_past(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    """click does where the terminal's encoding is ASCII."""
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    sent = sent_to_a_terminal("-c", BYTES, *HOSTILE.values(), program=sys.executable)
    assert_harmless(sent)
    assert sent.count("owned") >= 6


def test_nobody_else_can_write_a_style() -> None:
    """It has a key that differs in every process."""
    script = "from gpupool.findings.terminal import BOLD; print(BOLD)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() not in (BOLD, PLAIN)


def test_no_other_module_writes_control_sequences() -> None:
    """They would be shown instead of obeyed: each belongs to `gpupool.findings.terminal`."""
    written = []
    for path in (ROOT / "gpupool").rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        if any(isinstance(value, str) and "\x1b" in value for value in strings):
            written.append(str(path.relative_to(ROOT)))
    assert written == ["gpupool/findings/terminal.py"]
