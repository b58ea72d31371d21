"""`python -m tests.perf --rivals`: the same objects and rules through Kyverno's CLI and conftest.

Both are built on demand from tools/kyverno and tools/conftest (Kyverno: ten minutes on two cores), each is
run between two runs of ours, and what is measured is kept in policy_rivals.yaml with date and machine.
Kyverno evaluates the very policies that we evaluate; conftest the same rules in Rego. Nothing here is an
expectation: those are in expectations.yaml.
"""

from __future__ import annotations

import datetime
import os
import platform
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from gpupool.programs import binaries, gobuild
from tests.perf import policy_bundle, policy_figures, policy_files
from tests.perf.measure import run

KEPT = Path(__file__).with_name("policy_rivals.yaml")
_FAILED_RULES = 1
_CRD = policy_files.RULES / "nodepools.crd.yaml"


@dataclass(frozen=True, slots=True)
class Rival:
    """Another offline checker."""

    tool: str
    """Folder under tools/ and name of the program."""
    module: str
    package: str
    build_seconds: int
    times: int
    arguments: Callable[[Path, Path], list[str | Path]]
    """From the folders of objects and of policies."""
    found: str
    """A regular expression for the number of violations in what it prints."""


RIVALS = (
    Rival(
        tool="conftest",
        module="github.com/open-policy-agent/conftest",
        package="github.com/open-policy-agent/conftest",
        build_seconds=140,
        times=5,
        arguments=lambda bundle, _: ["test", bundle, "--policy", policy_files.RULES, "--no-color"],
        found=r"(\d+) failures?",
    ),
    Rival(
        tool="kyverno",
        module="github.com/kyverno/kyverno",
        package="github.com/kyverno/kyverno/cmd/cli/kubectl-kyverno",
        build_seconds=600,
        times=1,
        arguments=lambda bundle, policies: ["apply", policies, "--resource", bundle, "--crd-paths", _CRD],
        found=r"fail: (\d+)",
    ),
)


def measure(names: list[str]) -> list[dict[str, Any]]:
    """Measures these tools, each between two runs of ours, and keeps what came out.

    Raises Failed when a tool does not do its work, LocalError when it can't be built.
    """
    with tempfile.TemporaryDirectory(prefix="gpupool-bench-") as name:
        folder = Path(name)
        bundle = policy_bundle.write(folder / "bundle", policy_figures.OBJECTS)
        policies = policy_files.write(folder / "policies", policy_figures.POLICIES)
        rows = [_beside_ours(rival, bundle, policies, folder) for rival in RIVALS if rival.tool in names]
    kept = {row["tool"]: row for row in _kept()} | {row["tool"]: row for row in rows}
    text = KEPT.read_text()
    head = text[: text.index("figures:")]
    KEPT.write_text(head + yaml.safe_dump({"figures": list(kept.values())}, sort_keys=False))
    return rows


def _kept() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = yaml.safe_load(KEPT.read_text())["figures"]
    return rows


def _beside_ours(rival: Rival, bundle: Path, policies: Path, folder: Path) -> dict[str, Any]:
    program = _program(rival)
    command = [program, *rival.arguments(bundle, policies)]
    said = folder / "said"
    load = os.getloadavg()[0]
    ours = [policy_figures.check(bundle, policies, folder, times=3)]
    theirs = [run(command, folder, accepted=(0, _FAILED_RULES), output=said) for _ in range(rival.times)]
    ours.append(policy_figures.check(bundle, policies, folder, times=3))
    counts = [int(number) for number in re.findall(rival.found, said.read_text())]
    return {
        "tool": rival.tool,
        "version": binaries.pinned_version(rival.tool, rival.module),
        "seconds": round(statistics.median(seconds for seconds, _ in theirs), 2),
        "mebibytes": round(max(peak for _, peak in theirs)),
        "violations": counts[-1] if counts else None,
        "oursSeconds": round(statistics.mean(ours), 2),
        "oursMebibytes": round(policy_figures.peak(bundle, policies, folder)),
        "oursViolations": policy_figures.violations(bundle, policies, folder),
        "date": datetime.date.today().isoformat(),
        "machine": _machine(),
        "load": round(load, 1),
        "objects": f"{policy_figures.OBJECTS} of policy_bundle",
    }


def _program(rival: Rival) -> Path:
    version = binaries.pinned_version(rival.tool, rival.module)
    program = binaries.Program(
        name=rival.tool,
        tool=rival.tool,
        module=rival.module,
        package=rival.package,
        version=version,
        ldflags="-s -w",
        megabytes=0,
        seconds=rival.build_seconds,
        version_args=(),
        accepts="",
    )
    job = gobuild.Build(
        title=f"{rival.tool} {version}",
        source=program.source,
        ldflags=program.ldflags,
        targets={program.package: program.cached},
        usual_seconds=rival.build_seconds,
    )
    gobuild.build(job, lambda text: print(text, file=sys.stderr, flush=True))
    return program.cached


def _machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}"


def table() -> Iterator[tuple[str, ...]]:
    """The kept figures as rows: tool, version, theirs, ours, when and where."""
    for row in _kept():
        ours = f"{row['oursSeconds']:.3g} s" if row.get("oursSeconds") else "-"
        yield (
            row["tool"],
            row["version"],
            f"{row['seconds']:.3g} s",
            f"{row['mebibytes']} MiB",
            ours,
            f"{row['date']}, {row['machine']}, {row['objects']}",
        )
