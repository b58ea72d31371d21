"""`gpupool simulate` as a function: an environment, a trace and settings in, figures out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpupool.environment.plan.model import Plan
from gpupool.findings import UsageError
from gpupool.queue.domain.current import current
from gpupool.queue.simulate.engine import Simulation
from gpupool.queue.simulate.figures import RunFigures, figures
from gpupool.queue.simulate.numbers import NUMBERS
from gpupool.queue.simulate.record import Record
from gpupool.queue.simulate.trace import LEVELS, Names, Trace

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """How a trace is run."""

    numbers: Mapping[str, float]
    seed: int = 1
    repeat: int = 1
    """Runs, each with the next seed: what is drawn is when spot nodes are lost."""
    names: Names = field(default_factory=Names)


@dataclass(frozen=True, slots=True)
class Outcome:
    """An environment's runs of a trace."""

    runs: tuple[RunFigures, ...]
    """By seed; the first is the one that is shown."""
    record: Record
    """Of the first run."""

    @property
    def figures(self) -> RunFigures:
        return self.runs[0]


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What a weak number changes."""

    name: str
    half: RunFigures
    twice: RunFigures


def simulate(plan: Plan, trace: Trace, settings: Settings, notify: Notify = lambda _: None) -> Outcome:
    """Run the trace on the environment, once for each seed."""
    now, runs = current(plan), list[RunFigures]()
    arrivals = [settings.names.of(arrival) for arrival in trace.arrivals]
    unknown = {arrival.priority for arrival in arrivals if arrival.priority} - {*LEVELS}
    if unknown:
        name = min(unknown)
        raise UsageError(
            f"priority {name!r} of the trace is not one of {', '.join(LEVELS)}; map it with --map and a file "
            f"with priorities: {{{name}: high}}"
        )
    for seed in range(settings.seed, settings.seed + settings.repeat):

        def arrived(count: int, seed: int = seed) -> None:
            notify(f"{plan.environment}, seed {seed}: {count} of {len(arrivals)} jobs")

        record = Simulation(now, arrivals, dict(settings.numbers), seed, arrived).play()
        runs.append(figures(plan.environment, seed, trace, record))
        if seed == settings.seed:
            first = record
    return Outcome(tuple(runs), first)


def sensitivity(
    plan: Plan, trace: Trace, settings: Settings, notify: Notify = lambda _: None
) -> Sequence[Sensitivity]:
    """Each weak number halved and doubled."""
    rows = []
    for name in [name for name, number in NUMBERS.items() if number.weak]:
        sides = []
        for factor in (0.5, 2.0):
            notify(f"{name} times {factor:g}")
            value = min(settings.numbers[name] * factor, NUMBERS[name].most)
            numbers = {**settings.numbers, name: value}
            sides.append(simulate(plan, trace, Settings(numbers, settings.seed, 1, settings.names)).figures)
        rows.append(Sensitivity(name, *sides))
    return rows
