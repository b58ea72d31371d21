"""`gpupool policy check | test` as a user runs them: real policies, codes and words."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests import command
from tests.selection import some

ROOT = Path(__file__).parents[2]
POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: owners
  annotations:
    policies.gpupool.dev/title: Everything has an owner
    policies.gpupool.dev/why: Somebody must answer for it.
    policies.gpupool.dev/fix: Add the label owner.
    policies.gpupool.dev/pod-templates: "true"
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods, configmaps]}
  variables:
  - {name: owner, expression: "object.metadata.?labels.?owner.orValue('')"}
  validations:
  - expression: variables.owner != ''
    messageExpression: "object.kind + ' has no owner'"
    reason: Forbidden
  - expression: >-
      request.operation != 'UPDATE' || request.userInfo.username == 'root' || 'ops' in request.userInfo.groups
    message: only root may change it
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: owners-bound}
spec: {policyName: owners, validationActions: [Deny]}
"""
WARNING = POLICY.replace("[Deny]", "[Warn]")
OWNED = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: owned, labels: {owner: ann}}\n"
UNOWNED = "# a comment\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: stray, namespace: team}\n"
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: team}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web:1}]}
"""


def gpupool(*arguments: str, folder: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    """`gpupool policy`, in this process."""
    return command.gpupool("policy", *arguments, folder=folder, text=text)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "guards").mkdir()
    (tmp_path / "guards" / "owners.yaml").write_text(POLICY)
    (tmp_path / "k8s").mkdir()
    (tmp_path / "k8s" / "owned.yaml").write_text(OWNED)
    (tmp_path / "k8s" / "stray.yaml").write_text(UNOWNED)
    return tmp_path


def test_a_denial_says_everything_and_exits_1(place: Path) -> None:
    done = gpupool("check", "k8s", "--policies", "guards", folder=place)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[:6] == [
        "deny  owners  ConfigMap team/stray  k8s/stray.yaml:2:1",
        "      ConfigMap has no owner",
        "      expression  variables.owner != ''",
        '      values      variables.owner = ""',
        "      fix         Add the label owner.",
        "",
    ]
    assert done.stdout.splitlines()[6].startswith("1 denied: 2 objects, 1 policy from guards (")


def test_warnings_alone_exit_0(place: Path) -> None:
    (place / "guards" / "owners.yaml").write_text(WARNING)
    done = gpupool("check", "k8s", "--policies", "guards", folder=place)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("warn  owners")


def test_the_policies_of_the_folder_itself_are_used(place: Path) -> None:
    (place / "k8s" / "policy.yaml").write_text(POLICY)
    done = gpupool("check", "k8s", folder=place)
    assert done.returncode == 1
    assert "2 objects, 1 policy from k8s (" in done.stdout


def test_without_any_the_shipped_ones_are_used_and_named(place: Path) -> None:
    done = gpupool("check", "k8s", folder=place)
    assert "policies from" in done.stdout
    assert str(ROOT / "policies") in done.stdout
    assert "note: matched no object: " in done.stdout


def test_standard_input_and_several_targets(place: Path) -> None:
    done = gpupool(
        "check", "-", "k8s/owned.yaml", "--policies", "guards", "-o", "json", folder=place, text=UNOWNED
    )
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert answer["summary"]["objects"] == 2
    (finding,) = answer["findings"]
    assert (finding["file"], finding["line"]) == ("stdin", 2)
    assert answer["targets"] == ["-", "k8s/owned.yaml"]


def test_pods_in_workloads_are_judged_where_the_policy_asks_for_it(place: Path) -> None:
    (place / "k8s" / "web.yaml").write_text(DEPLOYMENT)
    done = gpupool("check", "k8s/web.yaml", "--policies", "guards", "-o", "json", folder=place)
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["resource"]["kind"] == "Deployment"
    assert finding["path"] == "spec.template"
    assert finding["line"] == 6


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 0),
        (["--operation", "UPDATE"], 1),
        (["--operation", "UPDATE", "--user", "root"], 0),
        (["--operation", "UPDATE", "--group", "dev", "--group", "ops"], 0),
        (["--operation", "DELETE"], 0),
    ],
)
def test_who_asks_and_for_what(place: Path, options: list[str], code: int) -> None:
    done = gpupool("check", "k8s/owned.yaml", "--policies", "guards", *options, folder=place)
    assert done.returncode == code, done.stdout


@pytest.mark.parametrize("output", ["text", "json", "sarif", "junit", "github"])
def test_every_output_exits_alike_and_names_the_finding(place: Path, output: str) -> None:
    done = gpupool("check", "k8s", "--policies", "guards", "-o", output, folder=place)
    assert (done.returncode, done.stderr) == (1, "")
    assert "ConfigMap has no owner" in done.stdout
    assert "stray.yaml" in done.stdout
    if output in ("json", "sarif"):
        json.loads(done.stdout)
    if output == "junit":
        ElementTree.fromstring(done.stdout)
    clean = gpupool("check", "k8s/owned.yaml", "--policies", "guards", f"--format={output}", folder=place)
    assert clean.returncode == 0


def test_what_can_not_be_read_is_a_finding_with_its_place(place: Path) -> None:
    (place / "k8s" / "broken.yaml").write_text("kind: Pod\nmetadata: [\n")
    done = gpupool("check", "k8s", "--policies", "guards", "-o", "json", folder=place)
    assert done.returncode == 1
    found = {finding["code"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert set(found) == {"owners", "unreadable"}, "the other files are judged all the same"
    assert found["unreadable"]["file"] == "k8s/broken.yaml"
    assert found["unreadable"]["line"] >= 2
    assert found["unreadable"]["origin"] == "document"


def test_a_policy_that_does_not_compile_is_a_denial(place: Path) -> None:
    (place / "guards" / "owners.yaml").write_text(
        POLICY.replace("variables.owner != ''", "variables.ovner != ''")
    )
    done = gpupool("check", "k8s/owned.yaml", "--policies", "guards", folder=place)
    assert done.returncode == 1
    assert "guards/owners.yaml:17" in done.stdout
    assert "ovner" in done.stdout


@pytest.mark.parametrize("output", ["text", "json", "sarif", "junit", "github"])
def test_no_output_shows_what_is_in_a_secret(place: Path, output: str) -> None:
    revealing = POLICY.replace("[pods, configmaps]", "[secrets]").replace(
        "\"object.kind + ' has no owner'\"", "\"'no owner: ' + string(object.data.token)\""
    )
    (place / "guards" / "owners.yaml").write_text(revealing)
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {token: aHVudGVyMg==}\n"
    done = gpupool("check", "-", "--policies", "guards", "-o", output, folder=place, text=secret)
    assert done.returncode == 1
    assert "owners" in done.stdout
    assert "aHVudGVyMg" not in done.stdout
    assert "hunter2" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "nowhere"], "nowhere: no such environment, folder or file"),
        (["check", "k8s", "--policies", "nowhere"], "--policies nowhere: no such file"),
        (["check", "empty.yaml"], "empty.yaml: nothing to check"),
        (["check"], "Missing argument"),
        (["check", "k8s", "-o", "xml"], "xml"),
        (["check", "k8s", "--polcies", "x"], "--polcies"),
        (["test", "nowhere"], "nowhere: no such folder"),
        (["test", "k8s"], "no ValidatingAdmissionPolicy"),
        (
            ["test", "guards", "-k", "nothing"],
            "no policy in guards has 'nothing' in its name; policies: owners",
        ),
    ],
)
def test_wrong_use_exits_2(place: Path, arguments: list[str], said: str) -> None:
    (place / "empty.yaml").write_text("# nothing\n")
    done = gpupool(*arguments, folder=place)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr


def test_nothing_that_a_folder_needs_none_of_is_imported(place: Path) -> None:
    code = (
        "import sys\nfrom gpupool.cli.main import run\ntry:\n    run()\nfinally:\n"
        "    print(*sorted(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "policy", "check", "k8s", "--policies", "guards"],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 1, done.stderr
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "vapcheck.judging.check" in loaded
    unwanted = {
        "typer",
        "pydantic",
        "pulumi",
        "rich",
        "kubernetes",
        "infra",
        "generators",
        "gpupool.environment.spec",
    }
    assert not loaded & unwanted


# The shipped environments and policies.


def test_every_shipped_environment_is_let_through() -> None:
    for name in ("dev", "homelab", "local", "prod", "staging"):
        done = gpupool("check", name, "-o", "json", folder=ROOT)
        answer = json.loads(done.stdout)
        denied = [finding for finding in answer["findings"] if finding["category"] == "deny"]
        assert (done.returncode, denied) == (0, []), name
        assert answer["summary"]["objects"] > 10


def test_environments_and_manifests_in_one_run(place: Path) -> None:
    alone = json.loads(gpupool("check", "homelab", "-o", "json", folder=ROOT).stdout)
    k8s = str(place / "k8s")
    both = json.loads(gpupool("check", "homelab", k8s, "-o", "json", folder=ROOT).stdout)
    assert both["summary"]["objects"] == alone["summary"]["objects"] + 2
    matched = {row["name"]: row["matched"] for row in both["policies"]}
    assert matched == {row["name"]: row["matched"] for row in alone["policies"]}
    idle = {row["name"] for row in both["policies"] if row["notApplied"]}
    assert idle == {name for name, count in matched.items() if not count}


OTHER = """\
apiVersion: v1
kind: Pod
metadata: {name: notebook, namespace: team-search}
spec:
  nodeSelector: {gpupool.dev/pool: training}
  tolerations: [{operator: Exists}]
  containers: [{name: work, image: "work:1", resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def test_manifests_beside_an_environment_are_judged_by_its_parameters(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(OTHER)
    alone = gpupool("check", str(tmp_path), "-o", "json", folder=ROOT)
    beside = gpupool("check", "prod", str(tmp_path), "-o", "json", folder=ROOT)
    rules = [{row["code"] for row in json.loads(done.stdout)["findings"]} for done in (alone, beside)]
    assert "tenants-stay-on-their-pools" not in rules[0], "without an environment the tenants are unknown"
    assert "tenants-stay-on-their-pools" in rules[1]


def test_environments_named_together_are_compared(tmp_path: Path) -> None:
    written = (ROOT / "environments" / "homelab.yaml").read_text()
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(written.replace("name: homelab", f"name: {name}", 1))
    files = [str(tmp_path / f"{name}.yaml") for name in ("one", "two")]
    assert gpupool("check", files[0], folder=ROOT).returncode == 0
    done = gpupool("check", *files, folder=ROOT)
    assert done.returncode == 1
    assert "one-environment-per-object" in done.stdout


def test_an_environment_is_the_place_of_its_findings(tmp_path: Path) -> None:
    strict = tmp_path / "strict.yaml"
    strict.write_text(POLICY.replace("[pods, configmaps]", "[namespaces]"))
    done = gpupool("check", "dev", "--policies", str(strict), "-o", "json", folder=ROOT)
    assert done.returncode == 1
    findings = [one for one in json.loads(done.stdout)["findings"] if one["code"] == "owners"]
    assert findings
    assert {one["file"] for one in findings} == {"environments/dev.yaml"}


def test_a_wrong_environment_is_findings_in_its_file() -> None:
    wrong = "tests/golden/wrong_environments/several-at-once.yaml"
    done = gpupool("check", wrong, "-o", "json", folder=ROOT)
    assert done.returncode == 1
    findings = json.loads(done.stdout)["findings"]
    assert len(findings) > 1
    assert {(one["origin"], one["file"]) for one in findings} == {("document", wrong)}


def test_an_environment_has_no_user_to_choose() -> None:
    done = gpupool("check", "dev", "--user", "ann", folder=ROOT)
    assert done.returncode == 2
    assert "--user" in done.stderr


def test_namespaces_and_bindings_can_be_said(place: Path) -> None:
    """As for the output of `helm template`, which has no Namespaces."""
    selects = "matchResources: {namespaceSelector: {matchLabels: {team: vision}}}"
    (place / "guards" / "owners.yaml").write_text(POLICY.replace("[Deny]", f"[Deny], {selects}"))
    options = ["check", "-", "--policies", "guards"]
    chart = UNOWNED.replace(", namespace: team", "")
    unsaid = gpupool(*options, folder=place, text=chart)
    assert unsaid.returncode == 0
    assert "namespace default is missing; 1 binding selects by its labels" in unsaid.stdout
    labels = ["--namespace", "shop", "--namespace-labels", "team=vision"]
    said = gpupool(*options, *labels, folder=place, text=chart)
    assert (said.returncode, "ConfigMap shop/stray" in said.stdout) == (1, True)
    assert "not given" not in said.stdout
    (place / "guards" / "owners.yaml").write_text(POLICY.partition("---")[0])
    assert "or evaluate it as if bound with --bind deny" in (
        gpupool(*options, folder=place, text=chart).stdout
    )
    assert gpupool(*options, "--bind", "deny", folder=place, text=chart).returncode == 1


def test_subresources_can_be_asked_for(place: Path) -> None:
    guard = POLICY.replace("[pods, configmaps]", "[pods/exec]").replace("[CREATE, UPDATE]", "[CONNECT]")
    (place / "guards" / "owners.yaml").write_text(
        guard.replace("variables.owner != ''", "request.name != 'web'")
    )
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: []}\n"
    options = ["check", "-", "k8s", "--policies", "guards"]
    unasked = gpupool(*options, folder=place, text=pod)
    assert "the rules name only subresources, pods/exec; use --subresource pods/exec" in unasked.stdout
    asked = gpupool(*options, "--subresource", "pods/exec", folder=place, text=pod)
    assert (asked.returncode, "1 denied: 1 object, " in asked.stdout) == (1, True)
    both = gpupool(*options, "--subresource", "exec", "--operation", "DELETE", folder=place, text=pod)
    assert (both.returncode, "--operation follows from --subresource" in both.stderr) == (2, True)


def test_uid_and_extra_of_who_asks(place: Path) -> None:
    """As NVIDIA's driver for dynamic resource allocation looks at them."""
    rule = "request.userInfo.?uid.orValue('') == 'u' && request.userInfo.extra['k/node'][0] == 'n=1'"
    (place / "guards" / "owners.yaml").write_text(POLICY.replace("variables.owner != ''", rule))
    options = ["check", "k8s", "--policies", "guards", "--user-uid", "u", "--user-extra"]
    assert gpupool(*options, "k/node=n=1", folder=place).returncode == 0
    assert gpupool(*options, "k/node=n", folder=place).returncode == 1
    wrong = gpupool(*options, "k/node", folder=place)
    assert (wrong.returncode, "--user-extra k/node: not a pair" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["team"], "--namespace-labels team: not a label; write KEY=VALUE"),
        (["a b=c"], "--namespace-labels a b=c: not a label"),
        (["team=x"], "stdin:1 has the namespace 'shop'"),
    ],
)
def test_labels_that_can_not_be_said(place: Path, labels: list[str], said: str) -> None:
    shop = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
    options = ["--policies", "guards", "--namespace", "shop", "--namespace-labels", *labels]
    done = gpupool("check", "-", *options, folder=place, text=shop)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_environment_files_in_a_folder_are_environments(tmp_path: Path) -> None:
    (tmp_path / "environments").mkdir()
    source = (ROOT / "environments" / "homelab.yaml").read_text()
    (tmp_path / "environments" / "homelab.yaml").write_text(source)
    done = gpupool("check", "environments", "-o", "json", folder=tmp_path)
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["summary"]["objects"] > 10


def test_an_environment_can_not_come_in_by_standard_input() -> None:
    text = (ROOT / "environments" / "homelab.yaml").read_text()
    done = gpupool("check", "-", folder=ROOT, text=text)
    assert done.returncode == 2
    assert "name its file instead" in done.stderr


@pytest.mark.parametrize("name", ["prod", "homelab"])
def test_a_rendering_is_judged_like_its_environment(name: str, tmp_path: Path) -> None:
    assert command.gpupool("render", name, "-o", str(tmp_path), folder=ROOT).returncode == 0
    rendered = json.loads(gpupool("check", str(tmp_path), "-o", "json", folder=ROOT).stdout)
    environment = json.loads(gpupool("check", name, "-o", "json", folder=ROOT).stdout)
    assert rendered["summary"]["objects"] == environment["summary"]["objects"]
    assert rendered["policies"] == environment["policies"]
    assert rendered["denied"] is environment["denied"] is False
    (tmp_path / "index.json").write_text('{"objects": 3}')
    broken = json.loads(gpupool("check", str(tmp_path), "-o", "json", folder=ROOT).stdout)
    reported = {finding["code"] for finding in broken["findings"]}
    assert "not-kubernetes" in reported, "an index of somebody else is no excuse"


# policy test


def fixtures(place: Path, good: str = OWNED, bad: str = UNOWNED) -> None:
    folder = place / "guards" / "fixtures" / "owners"
    folder.mkdir(parents=True)
    (folder / "good.yaml").write_text(good)
    (folder / "bad.yaml").write_text(bad)


def test_fixtures_that_pass(place: Path) -> None:
    fixtures(place)
    done = gpupool("test", "guards", folder=place)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "POLICY  GOOD  BAD  RESULT",
        "owners     1    1  ok",
        "",
        "passed: 1 policy, 2 fixtures",
    ]


def test_a_fixture_that_fails_is_named(place: Path) -> None:
    fixtures(place, good=OWNED + "---\n" + UNOWNED)
    done = gpupool("test", "guards", folder=place)
    assert done.returncode == 1
    assert "owners     2    1  FAILED" in done.stdout
    assert (
        "owners: guards/fixtures/owners/good.yaml:6: ConfigMap team/stray: "
        "a good fixture is refused: ConfigMap has no owner"
    ) in done.stdout


def test_a_policy_that_nothing_enforces_fails(place: Path) -> None:
    fixtures(place)
    (place / "guards" / "owners.yaml").write_text(POLICY.split("---")[0])
    done = gpupool("test", "guards", folder=place)
    assert done.returncode == 1
    assert "owners: guards/owners.yaml:1: nothing enforces it" in done.stdout


def test_mutants_that_nothing_notices_are_named(place: Path) -> None:
    fixtures(place)
    done = gpupool("test", "guards", "--mutate", folder=place)
    assert done.returncode == 1
    assert (
        "owners: spec.validations[1].expression: no fixture detects this change: always true" in done.stdout
    )
    assert "spec.validations[0].expression: no fixture detects" not in done.stdout
    answer = json.loads(gpupool("test", "guards", "--mutate", "--format", "json", folder=place).stdout)
    assert answer["passed"] is False
    (policy,) = answer["policies"]
    assert policy["failures"] == []
    assert {row["path"] for row in policy["unnoticed"]} >= {"spec.validations[1].expression"}
    assert policy["mutants"] > len(policy["unnoticed"])


def test_a_policy_without_fixtures_fails(place: Path) -> None:
    done = gpupool("test", "guards", "-o", "json", folder=place)
    assert done.returncode == 1
    (policy,) = json.loads(done.stdout)["policies"]
    assert [failure["message"].split(";")[0] for failure in policy["failures"]] == [
        "no good fixture",
        "no bad fixture",
    ]


def test_fixtures_of_the_shipped_policies_prove_every_part_of_them(tmp_path: Path) -> None:
    policies = sorted((ROOT / "policies").glob("*.yaml"))
    chosen = some("policies", policies, 4)
    for policy in chosen:
        shutil.copy(policy, tmp_path)
        shutil.copytree(policy.parent / "fixtures" / policy.stem, tmp_path / "fixtures" / policy.stem)
    done = gpupool("test", str(tmp_path), "--mutate", "--format", "json", folder=ROOT)
    answer = json.loads(done.stdout)
    assert [(row["name"], row["failures"], row["unnoticed"]) for row in answer["policies"]] == [
        (row["name"], [], []) for row in answer["policies"]
    ]
    assert (done.returncode, answer["failures"]) == (0, [])
    assert len(answer["policies"]) == len(chosen)
