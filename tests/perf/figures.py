"""The figures of `make bench`, each a function that yields (name, value) pairs.

FIGURES is the only place where they are registered; what is expected of them is expectations.yaml.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.sharing import placement
from gpupool.environment.sharing.verdict import maximal_layouts
from gpupool.environment.spec.load import load
from gpupool.generators import generate
from gpupool.generators.render import files
from gpupool.programs import binaries
from tests.perf import (
    assert_figures,
    borrowing_figures,
    flood_figures,
    idle_figures,
    large,
    policy_figures,
    queue_figures,
    report_figures,
    scale_figures,
    simulation_figures,
)
from tests.perf.measure import Failed, run, seconds

GPUPOOL = Path(sys.executable).with_name("gpupool")
ROOT = Path(__file__).parents[2]
PAIRS = 9
OBJECTS = 1000
Figure = tuple[str, float]


def against_kustomize(folder: Path) -> Iterator[Figure]:
    """Both start from files and end with the same objects; measured in turn, so that both meet the same
    machine. gpupool reads one environment and writes a file for each object, kustomize reads those."""
    kustomize = binaries.find("kustomize") or shutil.which("kustomize")
    if kustomize is None:
        raise Failed(
            "no kustomize; build it with: go build sigs.k8s.io/kustomize/kustomize/v5 in tools/kustomize"
        )
    environment = large.write_objects(folder, "thousand", OBJECTS)
    rendered = folder / "rendered"
    run([GPUPOOL, "render", environment, "-o", rendered], folder)
    paths = sorted(path for path in rendered.rglob("*.yaml") if path.parent.name != "releases")
    resources = "".join(f"  - {path.relative_to(rendered)}\n" for path in paths)
    (rendered / "kustomization.yaml").write_text(f"resources:\n{resources}")
    ours, theirs = list[float](), list[float]()
    for number in range(PAIRS):
        fresh = folder / f"fresh-{number}"
        ours.append(run([GPUPOOL, "render", environment, "-o", fresh], folder)[0])
        theirs.append(run([kustomize, "build", rendered], folder)[0])
        shutil.rmtree(fresh)
    yield "render-vs-kustomize", statistics.median(ours) / statistics.median(theirs)


def in_process(folder: Path) -> Iterator[Figure]:
    plan = resolve(load(large.write_objects(folder, "thousand", OBJECTS)))
    yield "render-in-process", statistics.median(seconds(lambda: files(generate(plan)), 7))


def large_environment(folder: Path) -> Iterator[Figure]:
    environment = large.write(folder, "large", pools=100, tenants=200)
    taken, peaks = list[float](), list[float]()
    for number in range(5):
        validate = run([GPUPOOL, "validate", environment], folder)
        render = run([GPUPOOL, "render", environment, "-o", folder / f"large-{number}"], folder)
        taken.append(validate[0] + render[0])
        peaks += [validate[1], render[1]]
    yield "large-environment", statistics.median(taken)
    yield "large-environment-memory", max(peaks)


def layouts(_: Path) -> Iterator[Figure]:
    """Without what an earlier call may have kept."""
    slowest = 0.0
    for model in load_catalog().models.values():
        taken = []
        for _run in range(5):
            placement.feasible.cache_clear()
            placement.maximal.cache_clear()
            taken += seconds(lambda gpu=model: maximal_layouts(gpu), 1)  # type: ignore[misc]
        slowest = max(slowest, statistics.median(taken))
    yield "maximal-layouts", slowest * 1000


def up(folder: Path) -> Iterator[Figure]:
    """A control plane of its own; what runs in the project's folder is left alone."""
    variables = {"GPUPOOL_LOCAL_DIR": str(folder / "local")}
    try:
        steps = (("local", "up"), ("up", "local", "--yes"), ("local", "try"))
        yield "up-from-nothing", sum(run([GPUPOOL, *step], ROOT, variables)[0] for step in steps)
        unchanged = [run([GPUPOOL, "up", "local", "--yes"], ROOT, variables)[0] for _ in range(3)]
        yield "up-unchanged", statistics.median(unchanged)
    finally:
        run([GPUPOOL, "local", "down"], ROOT, variables)


FIGURES: tuple[tuple[Callable[[Path], Iterator[Figure]], tuple[str, ...]], ...] = (
    (against_kustomize, ("render-vs-kustomize",)),
    (in_process, ("render-in-process",)),
    (large_environment, ("large-environment", "large-environment-memory")),
    (layouts, ("maximal-layouts",)),
    (up, ("up-from-nothing", "up-unchanged")),
    (scale_figures.whole_commands, ("up-each", "up-flat", "destroy-each", "destroy-flat")),
    (
        policy_figures.whole_command,
        ("policy-check", "policy-check-memory", "policy-check-fifty", "policy-check-linear"),
    ),
    (policy_figures.denials, ("policy-denials", "policy-denials-memory")),
    (policy_figures.evaluation, ("policy-expression",)),
    (assert_figures.whole_command, ("assert", "assert-lists")),
    (report_figures.reports, ("report-one-changed", "report")),
    (
        queue_figures.queue,
        (
            "queue-enqueue",
            "queue-enqueue-p99",
            "queue-dispatch-p99",
            "queue-takeover",
            "queue-decision",
            "queue-round-p99",
            "queue-memory",
            "queue-metrics",
            "queue-series",
            "queue-list-page",
        ),
    ),
    (simulation_figures.simulation, ("simulation-speed", "simulation-growth", "simulation-memory")),
    (borrowing_figures.borrowing, ("borrowing-round-p99", "borrowing-use")),
    (borrowing_figures.returns, ("borrowing-return", "borrowing-return-p99")),
    (idle_figures.idle, ("queue-idle", "queue-growth")),
    (
        flood_figures.floods,
        ("flood-p50", "flood-p99", "flood-healthz-p99", "flood-failed", "flood-memory"),
    ),
)


def measure(measured_by: Callable[[Path], Iterator[Figure]]) -> Iterator[Figure]:
    """What one function measures, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="gpupool-bench-") as folder:
        yield from measured_by(Path(folder))
