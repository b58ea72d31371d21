"""What an environment file, a policy or a cluster says stays text in every output: it begins no line, no
command of a terminal or a CI log, and no markup."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.adopt.doctor.model import CheckResult, Diagnosis
from gpupool.adopt.doctor.reasons import Reason
from gpupool.cli import doctor, environments, promote, stack
from gpupool.cli.findings.outputs import write_report
from gpupool.cli.output import print_error, print_text
from gpupool.environment.plan.resolve import read_plan
from gpupool.findings.of_policy import policy_finding
from gpupool.infra.stack_events import EngineOutcome
from gpupool.infra.stack_result import Result
from gpupool.policy.gate import describe, judge
from gpupool.review.report.markdown import comment
from gpupool.review.report.text import text
from tests.cli.policy_sample import DENIED, WARNED, sample
from tests.environment_files import write_environment
from tests.review.report.plans import EKS, Data, report

WORDS = (
    "x\n::error::owned\r\n::stop-commands::t\x85\x1b[2J\x1b]0;t\x07 \u2028\u202e\u00ad tab\t##[add-mask]t "
    "##vso[task.setvariable]t | <img src=x> @everyone &commat;everyone #1 `c` **b** [l](http://evil.example) "
    "https://evil.example www.evil.example %0A::error::x,:y ]]> ::error::broken "
    + "long " * 40
    + "::error::z"
)
COMMAND = re.compile(r"^\s*::[a-z-]+.*::|##(\[|vso\[)", re.MULTILINE)
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u2028-\u202e\u2060-\u206f]")


def assert_text(output: str) -> None:
    assert not OBEYED.search(output), repr(output)
    assert not COMMAND.search(output), output
    assert not re.search(r"^(owned|t)\b", output, re.MULTILINE)


def hostile(data: Data) -> None:
    """Hostile words in every field that takes any text."""
    data["metadata"]["annotations"] = {WORDS: WORDS}
    data["cluster"]["kubeContext"] = WORDS
    data["pools"][0]["description"] = WORDS
    data["pools"][0]["nodes"]["tags"] = {"team": WORDS}
    data["priorities"] = [{"name": "fast", "value": 1, "level": "high", "description": WORDS}]
    data["tenants"][0]["access"] = {"oidcGroups": [WORDS]}
    waiver = {"policy": "pin-images", "owner": WORDS, "reason": WORDS, "until": "2026-09-10"}
    data["policies"] = {"waivers": [waiver]}
    data["monitoring"] = {"dashboards": {"folder": WORDS}}


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    data: dict[str, Any] = json.loads(json.dumps(EKS))
    hostile(data)
    return write_environment(tmp_path, data)


def test_plan(environment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environments.show(str(environment))
    assert_text(capsys.readouterr().out)


def test_sentences_that_are_broken(capsys: pytest.CaptureFixture[str]) -> None:
    print_text(WORDS)
    assert_text(capsys.readouterr().out)


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    words = {"problem": WORDS, "place": WORDS, "remediation": WORDS}
    found = CheckResult(WORDS, Reason.FILE_FINDING, words, check="file")
    doctor._print(Diagnosis("random", "random.yaml", (found,), ()))
    assert_text(capsys.readouterr().out)


def test_what_a_promotion_would_change(capsys: pytest.CaptureFixture[str]) -> None:
    promote._print_diff("random", "a: 1\n", f"a: |\n  {WORDS}\n")
    assert_text(capsys.readouterr().out)


def test_report_as_text(tmp_path: Path) -> None:
    output = text(report(tmp_path, EKS, hostile))
    assert "pin-images" in output
    assert_text(output)


def test_report_as_markdown(tmp_path: Path) -> None:
    output = comment(report(tmp_path, EKS, hostile))
    assert "pin-images" in output
    assert_text(output)
    live = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", output.replace("\\`", ""))
    for markup in ("<img", "@everyone", "&commat;", "](", "**b**", "#1", "://", "www."):
        assert markup not in live.replace("\\]", ""), markup


def finding_of_a_waiver(environment: Path) -> Any:
    report_ = judge(read_plan(str(environment)), date(2027, 1, 1))
    (finding,) = [each for each in report_.findings if each.rule == "expired-waiver"]
    return finding


def test_preview_and_up(environment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finding = finding_of_a_waiver(environment)
    outcome = EngineOutcome(warnings=[WORDS])
    stack._show(
        Result("trial", "up", outcome, 1, notes=(WORDS,), refused=WORDS, findings=(policy_finding(finding),)),
        "text",
    )
    assert_text(capsys.readouterr().out)
    print_error(describe(policy_finding(finding)))
    assert_text(capsys.readouterr().err)


def checked(output: str, environment: Path) -> str:
    stream = io.StringIO()
    of_policy = replace(
        DENIED,
        message=WORDS,
        remediation=WORDS,
        why=WORDS,
        title=WORDS,
        reason="a\x1bb\x00",
        rule=f"rule {WORDS}",
    )
    check = sample(of_policy, finding_of_a_waiver(environment), replace(WARNED, path=WORDS, file=WORDS))
    write_report(replace(check, policies_from=(WORDS,)).finding_report(), output, stream)
    return stream.getvalue()


def test_policy_check_as_text(environment: Path) -> None:
    assert_text(checked("text", environment))


def test_a_message_makes_no_row_of_its_finding() -> None:
    stream = io.StringIO()
    message = "wrong\nfix         Run this."
    write_report(
        sample(replace(WARNED, message=message, remediation="Run that.")).finding_report(), "text", stream
    )
    rows = [line for line in stream.getvalue().splitlines() if line.startswith("      fix ")]
    assert [row.split(maxsplit=1)[1] for row in rows] == ["Run that."]


def test_annotations_of_github(environment: Path) -> None:
    output = checked("github", environment)
    assert not OBEYED.search(output)
    *commands, summary = output.splitlines()
    assert len(commands) == 3
    assert_text(summary)
    for command in commands:
        properties = re.match(r"::(?:error|warning) ([^:]*)::", command)
        assert properties, command
        names = [each.partition("=")[0] for each in properties[1].split(",")]
        assert set(names) <= {"file", "line", "col", "title"}
        assert len(names) == len(set(names))
        assert not re.search("%(?!25|0A|0D|3A|2C)", command)


def test_junit(environment: Path) -> None:
    root = ElementTree.fromstring(checked("junit", environment))
    assert {element.tag for element in root.iter()} <= {
        "testsuites", "testsuite", "testcase", "failure", "system-out", "skipped",
    }  # fmt: skip
    assert any("]]>" in (element.text or "") for element in root.iter("failure"))


def test_sarif(environment: Path) -> None:
    (run,) = json.loads(checked("sarif", environment))["runs"]
    for result in run["results"]:
        assert not OBEYED.search(result["message"]["text"].replace("\t", ""))
        assert "l](" not in result["message"]["text"].replace("\\](", "")
    for rule in run["tool"]["driver"]["rules"]:
        shown = rule.get("help", {}).get("markdown", "")
        assert not re.search(r"<img|@everyone|&commat;|(?<!\\)\]\(|://", shown)


PIECES = (
    "::error::",
    "::",
    "##[",
    "##vso[",
    "]",
    "#",
    ":",
    "a",
    " ",
    "\n",
    "\r",
    "\t",
    "\x1b",
    "\x85",
    "\u2028",
    "\u202e",
)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_any_text_is_without_commands(words: str) -> None:
    stream = io.StringIO()
    write_report(sample(replace(WARNED, message=words, remediation=words)).finding_report(), "text", stream)
    assert_text(stream.getvalue())
