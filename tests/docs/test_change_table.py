"""Rows of "Where do I change X?" in CONTRIBUTING.md are true: each change is made on a copy of the product,
in the files that its row names and in no other, and works there.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
COPIED = (
    *("environments", "gpupool", "infra", "policies", "vapcheck", "charts", "docs"),
    *("Makefile", "pyproject.toml", "tests/conftest.py", "tests/examples.py", "tests/selection.py"),
    "tests/selection.yaml",
    *("tests/golden/test_policy_table.py", "tests/generators/monitoring/alert_cases.yaml"),
)
END = ""
"""Before this anchor a text goes to the end of the file."""

TRIAL = """
apiVersion: gpupool.dev/v1alpha1
kind: Environment
metadata: {name: trial}
cluster: {platform: static, name: trial}
pools:
  - {name: desk, gpu: t4, nodes: {names: [one]}, taints: []%s}
%s"""

TRY_DRIFT = """
from datetime import UTC, datetime
from gpupool.generators import generate
from gpupool.live.cluster.snapshot import ClusterSnapshot
from gpupool.live.drift import examine
from gpupool.environment.plan.resolve import read_plan
plan = read_plan("homelab")
now = datetime.now(UTC)
print([drift.what for drift in examine(plan, generate(plan), ClusterSnapshot({}, now), now)])
"""

STALE = """
from pathlib import Path
from gpupool.environment.schema import gpu_types, published
from tests.golden import test_policy_table

made = {
    published.FILE: published.text("environment"),
    published.CATALOG_FILE: published.text("catalog"),
    published.VALUES_FILE: published.text("values"),
    Path("gpupool/client/gpu_types.py"): gpu_types.text(),
    test_policy_table.TABLE: test_policy_table.table(),
}
print("stale:", [path.name for path, text in made.items() if path.read_text() != text])
"""
"""Which files that are written from others differ from what would be written now."""


@dataclass(frozen=True)
class Change:
    row: str
    """The first column of its row."""
    command: str
    """What is run in the copy, by its Python."""
    shows: str
    """What is printed then, among other things."""
    new: Mapping[str, str] = field(default_factory=dict)
    """Files that are made."""
    edits: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """File -> (text that is there, what is put before it)."""
    trial: str = ""
    """trial.yaml, the user's own file by which the change is tried."""


GPUPOOL = "-m gpupool.cli.main "

CHANGES = (
    Change(
        row="add a GPU model",
        new={
            "gpupool/environment/catalog/t5.yaml": (ROOT / "gpupool/environment/catalog/t4.yaml")
            .read_text()
            .replace("T4", "T5")
        },
        trial=TRIAL.replace("gpu: t4", "gpu: t5") % ("", ""),
        command=GPUPOOL + "show trial.yaml",
        shows="t5",
    ),
    Change(
        row="add an environment",
        new={"environments/lab.yaml": (TRIAL % ("", "")).replace("trial", "lab")},
        command=GPUPOOL + "validate lab",
        shows="lab: valid",
    ),
    Change(
        row="add a sharing mode",
        edits={
            "gpupool/environment/spec/environment.py": (
                (
                    "Sharing = Annotated[",
                    'class Turns(Model):\n    mode: Literal["turns"]\n    replicas: int\n\n\n',
                ),
                (" | Mig, Field(", " | Turns"),
            ),
            "gpupool/environment/sharing/__init__.py": (
                (
                    "from gpupool.environment.sharing.verdict",
                    "from gpupool.environment.sharing.turns import Turns\n",
                ),
                ("Mps, MigSharing)", "Turns, "),
            ),
            "gpupool/environment/drawings/gpu.py": (
                (
                    "def _replicas(",
                    "from gpupool.environment.sharing.turns import Turns\n\n\n"
                    "@_drawn.register\ndef _turns(sharing: Turns, gpu: GpuModel) -> GpuDrawing:\n"
                    '    row = _replicas(sharing.replicas, "turn")\n'
                    '    return GpuDrawing(gpu.title, "They take turns.", row, row, 0, 0)\n\n\n',
                ),
            ),
        },
        new={
            "gpupool/environment/sharing/turns.py": "from dataclasses import dataclass\n"
            "from typing import ClassVar\n\n"
            "from gpupool.environment.sharing.mode import Isolation\n"
            "from gpupool.environment.sharing.replicated import Replicated\n\n\n"
            "@dataclass(frozen=True, slots=True)\nclass Turns(Replicated):\n"
            '    mode: ClassVar[str] = "turns"\n    plugin_key: ClassVar[str | None] = "turns"\n'
            "    isolation: ClassVar[Isolation] = Isolation.memory\n"
            "    has_daemon: ClassVar[bool] = False\n    may_fall_back: ClassVar[bool] = False\n",
        },
        trial=TRIAL % (", sharing: {mode: turns, replicas: 3}", ""),
        command=GPUPOOL + "render trial.yaml -o out && cat $(find out -name '*.yaml')",
        shows="sharing:\n      turns:",
    ),
    Change(
        row="add a generated object",
        new={
            "gpupool/generators/greeting.py": "from gpupool.generators.metadata import manifest_of\n"
            "from gpupool.environment.plan.model import SYSTEM_NAMESPACE\n\n\n"
            "def generate(plan):\n"
            '    yield manifest_of(plan, "ConfigMap", "greeting", SYSTEM_NAMESPACE)\n',
        },
        edits={
            "gpupool/generators/__init__.py": (
                ("    karpenter,\n", "    greeting,\n"),
                ("    karpenter.generate,\n", "    greeting.generate,\n"),
            )
        },
        command=GPUPOOL + "render homelab -o out && cat $(find out -name '*.yaml')",
        shows="name: greeting",
    ),
    Change(
        row="add a check of environment files",
        edits={
            "gpupool/environment/plan/checks/names.py": (
                (
                    END,
                    "\n\ndef polite(context: CheckContext) -> Iterator[PlanProblem]:\n"
                    '    yield PlanProblem(("metadata", "name"), "says no please", "say it")\n',
                ),
            ),
            "gpupool/environment/plan/checks/__init__.py": (
                ("    names.pool_names,\n", "    names.polite,\n"),
            ),
        },
        command=GPUPOOL + "validate homelab",
        shows="says no please",
    ),
    Change(
        row="add a policy",
        new={
            f"policies/{name}": (ROOT / "policies" / name.replace("polite", "config-sets-no-gpus"))
            .read_text()
            .replace("config-sets-no-gpus", "polite")
            for name in (
                "polite.yaml",
                *(f"fixtures/polite/{kind}.yaml" for kind in ("good", "bad", "context")),
            )
        },
        command=GPUPOOL + "policy test policies -k polite",
        shows="polite",
    ),
    Change(
        row="add a rule over a whole bundle",
        edits={
            "gpupool/policy/rules/identity.py": (
                (
                    END,
                    "\n\ndef polite(bundle: ObjectSet) -> Iterator[RuleViolation]:\n"
                    '    yield RuleViolation("no please")\n',
                ),
            ),
            "gpupool/policy/rules/__init__.py": (
                ('    _rule("namespaces-exist"', '    _rule("polite", identity.polite),\n'),
            ),
            "gpupool/policy/rules/rules.yaml": (
                (END, "polite: {title: Polite, why: Why not., remediation: Say it.}\n"),
            ),
        },
        command=GPUPOOL + "policy check homelab",
        shows="no please",
    ),
    Change(
        row="add a format of findings",
        new={"gpupool/cli/findings/count.py": "def write(report, stream):\n    stream.write('counted\\n')\n"},
        edits={"gpupool/cli/findings/outputs.py": ((']\n"""What `-o` takes', ', "count"'),)},
        command=GPUPOOL + "policy check homelab -o count",
        shows="counted",
    ),
    Change(
        row="add a delivery engine",
        edits={
            "gpupool/environment/spec/delivery.py": (('] = "pulumi"', ', "kapp"'),),
            "gpupool/environment/plan/delivery.py": (
                (
                    "    )\n}\n\n\n@dataclass",
                    '        Engine("kapp", "kapp", ("kapp",), "keep", False, True, "a Secret"),\n',
                ),
            ),
            "gpupool/generators/delivery.py": (
                ("\n\nclass EngineModule(", "from gpupool.generators import delivery_kapp\n"),
                ("}\n\n\ndef body(", ', "kapp": delivery_kapp'),
            ),
        },
        new={
            "gpupool/generators/delivery_kapp.py": 'START = "-f"\nFOLDER = "delivery/kapp"\n\n\n'
            "def notes(manifest, delivery):\n"
            '    return {"kapp.k14s.io/change-group": str(manifest.wave)}\n\n\n'
            "def keeps(annotations):\n    return False\n\n\n"
            "def delivering(bundle):\n    return []\n\n\n"
            "def halt(live, delivery):\n    return None\n\n\n"
            "def wrappers(bundle):\n    return {}\n\n\n"
            'def resync(plan, parts):\n    return f"kapp deploy -a {plan.environment}"\n'
        },
        trial=TRIAL % ("", "delivery: {engine: kapp, repo: https://git.example.com/a.git, path: rendered}"),
        command=GPUPOOL + "render trial.yaml -o out && cat $(find out -name '*.yaml')",
        shows='kapp.k14s.io/change-group: "10-namespaces"',
    ),
    Change(
        row="add a kind of drift",
        new={
            "gpupool/live/drift/politeness.py": "from gpupool.live.drift.drift import Drift\n\n\n"
            "def check(inputs):\n"
            "    yield Drift("
            'layer="objects", code="impolite", object="it", what="no please", remediation="say it")\n',
        },
        edits={
            "gpupool/live/drift/__init__.py": (
                (
                    "from gpupool.live.drift.drift import LAYERS",
                    "from gpupool.live.drift import politeness\n",
                ),
                ("    repartitions.check,\n", "    politeness.check,\n"),
            )
        },
        command=f"-c '{TRY_DRIFT}'",
        shows="no please",
    ),
    Change(
        row="add an alert, a recording rule or a panel of a dashboard",
        edits={
            "gpupool/generators/monitoring/rules.yaml": (
                (
                    "  - group: gpupool.live.drift.alerts\n",
                    "  - group: polite.alerts\n    rules:\n"
                    "      - {alert: GpupoolPolite, severity: info, expr: 'vector(1)',\n"
                    "         summary: No please, description: Say it.}\n",
                ),
            ),
            "gpupool/generators/monitoring/boards.yaml": (
                (
                    "          - {title: Power, type: stat,",
                    "          - {title: Manners, type: stat, unit: short, width: 4,\n"
                    '             description: Says please., show: [["vector(1)", please]]}\n',
                ),
            ),
            "docs/alerts.md": ((END, "\n## GpupoolPolite\n\n- Check: the mirror.\n- Action: say it.\n"),),
            "tests/generators/monitoring/alert_cases.yaml": (
                (END, "- {alert: GpupoolPolite, name: always, at: 1m, firing: 1, series: {}}\n"),
            ),
        },
        command=GPUPOOL + "render homelab -o out --monitoring out && "
        "grep -rho GpupoolPolite out && grep -rho Manners out",
        shows="GpupoolPolite\nManners",
    ),
    Change(
        row="add a command",
        new={"gpupool/cli/hello.py": 'def hello() -> None:\n    """Say it."""\n    print("hello there")\n'},
        edits={
            "gpupool/cli/app.py": (
                ('        "local": Verb(', '        "hello": Verb("gpupool.cli.hello", "Say it."),\n'),
            )
        },
        command=GPUPOOL + "hello",
        shows="hello there",
    ),
)


def rows() -> dict[str, tuple[str, str]]:
    """First column -> what to touch, and what not to."""
    table = CONTRIBUTING.partition("## Where do I change X?")[2].partition("\n## ")[0]
    found = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if "|" in line
    ]
    return {cells[0]: (cells[1], cells[2].rstrip(" |")) for cells in found if len(cells) == 3}


def named(cell: str, path: str) -> bool:
    """Whether a cell of the table names the file, by itself, by its folder or with <name> in it."""
    patterns = [re.sub(r"<\w+>", "*", word) for word in re.findall(r"`([\w./<>-]+)`", cell) if "/" in word]
    return any(fnmatch.fnmatch(path, f"{one}*" if one.endswith("/") else one) for one in patterns)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.row)
def test_only_what_the_row_names_is_touched(change: Change) -> None:
    touch, keep = rows()[change.row]
    for path in (*change.new, *change.edits):
        assert named(touch, path), f"{path} is not named by: {touch}"
        assert not named(keep, path), f"{path} must not be touched: {keep}"


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.row)
def test_the_change_works(change: Change, tmp_path: Path) -> None:
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("*.pyc.*")
            )
        else:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    for name, text in change.new.items():
        path = tmp_path / name
        assert not path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name, edits in change.edits.items():
        path = tmp_path / name
        text = path.read_text(encoding="utf-8")
        for anchor, added in edits:
            assert anchor == END or text.count(anchor) == 1, f"{name} has not one {anchor!r}"
            text = text.replace(anchor, added + anchor) if anchor else text + added
        path.write_text(text, encoding="utf-8")
    (tmp_path / "trial.yaml").write_text(change.trial, encoding="utf-8")
    written = write_again(change, tmp_path)
    shown = run(f"{sys.executable} -B {change.command}", tmp_path)
    assert change.shows in shown.stdout + shown.stderr
    assert "Traceback" not in shown.stderr, shown.stderr
    stale = run(f"{sys.executable} -B -c '{STALE}'", tmp_path)
    assert stale.stdout == "stale: []\n", written + stale.stdout + stale.stderr


def write_again(change: Change, root: Path) -> str:
    """Run the command that the row ends with, if any. Of `make golden` only what shipped policies concern."""
    command = re.search(r"then `(make \w+)`", rows()[change.row][0])
    if command is None:
        return ""
    assert run("git init --quiet && git add docs", root).returncode == 0
    line = f"{command[1]} --old-file=.venv/.ready GOLDEN=tests/golden/test_policy_table.py"
    done = run(line, root)
    assert done.returncode == 0, done.stdout + done.stderr
    in_summary = "docs/policy-table.md" in done.stdout
    assert in_summary == any(path.startswith("policies/") for path in change.new), done.stdout
    return done.stdout


def run(command: str, root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        shell=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
