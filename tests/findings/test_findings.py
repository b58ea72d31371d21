"""How findings are said: one printable line each, in the order of the file."""

from __future__ import annotations

from gpupool.cli.findings.json import finding_json
from gpupool.findings import Finding, SpecError, file_finding


def finding(
    line: int = 1, column: int = 1, path: str = "", what: str = "wrong", remediation: str = "do right"
) -> Finding:
    return file_finding("x.yaml", line, column, path, what, remediation)


def test_a_finding_is_one_line_with_its_place() -> None:
    assert str(finding(23, 7, "pools[1].gpu")) == "x.yaml:23:7: pools[1].gpu: wrong; do right"
    assert str(finding()) == "x.yaml:1:1: wrong; do right"


def test_nothing_that_a_terminal_would_obey_is_printed() -> None:
    said = str(finding(path="a\nb", what="\x1b[31m \x07 \x9b \u202e", remediation="é 中"))
    assert said == "x.yaml:1:1: a\\nb: \\x1b[31m \\x07 \\x9b \\u202e; é 中"


def test_machines_get_the_text_as_it_is() -> None:
    assert finding_json(finding(path="a\nb"))["path"] == "a\nb"


def test_an_error_has_its_findings_in_the_order_of_the_file() -> None:
    error = SpecError([finding(10, 1), finding(2, 9), finding(2, 3)])
    assert [(one.line, one.column) for one in error.findings] == [(2, 3), (2, 9), (10, 1)]
    assert str(error).count("\n") == 2
