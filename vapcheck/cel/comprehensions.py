"""Running what the macros become: folds over lists and maps, with cel-go's order of evaluation and costs.

Facts: cel-go 0.26 interpreter/interpretable.go (evalFold) and parser/macro.go. The usual macros have their
own loops, because they are where policies spend their time; any other fold runs as written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from vapcheck.cel.errors import CelError, NoSuchOverload
from vapcheck.cel.frame import COST, LIMIT, Frame, Run, check_cost
from vapcheck.cel.go_format import native_name, verb_v
from vapcheck.cel.values import from_key, kind, to_key

LIST_COST = 10
"""Cost units of making a list (cel-go common/cost.go)."""


@dataclass(frozen=True, slots=True)
class Fold:
    """The compiled parts of a comprehension and the slots of its variables."""

    range: Run
    first: int
    second: int | None
    """None for macros with one variable."""
    accumulator: int


def entries(fold: Fold, value: Any) -> Iterable[Any]:
    """What the macro's variable goes through; with two variables, pairs. Raises CelError for other kinds."""
    if fold.second is None:
        if isinstance(value, (list, tuple)):
            return value
        if isinstance(value, dict):
            return map(from_key, value)
        raise CelError(f"got '{native_name(value)}', expected iterable type")
    if isinstance(value, (list, tuple)):
        return enumerate(value)
    if isinstance(value, dict):
        return ((from_key(key), entry) for key, entry in value.items())
    raise CelError(f"unsupported comprehension range type: {native_name(value)}")


def _each(fold: Fold, frame: Frame) -> Iterator[None]:
    """Set the variables to one element after the other; stops the evaluation when it becomes too
    expensive."""
    first, second, limit = fold.first, fold.second, frame[LIMIT]
    found = entries(fold, fold.range(frame))
    if second is None:
        for frame[first] in found:
            yield
            if frame[COST] > limit:
                check_cost(frame)
    else:
        for frame[first], frame[second] in found:
            yield
            if frame[COST] > limit:
                check_cost(frame)


def quantifier(fold: Fold, predicate: Run, verdict: bool) -> Run:
    """all() with the verdict False, exists() with True: the predicate's value that settles it.

    An error counts only where nothing settles it, as with `&&` and `||`.
    """
    per_element = 4 if verdict else 3

    def run(frame: Frame) -> Any:
        problem: CelError | None = None
        steps = iter(_each(fold, frame))
        for _ in steps:
            frame[COST] += per_element
            try:
                value = predicate(frame)
            except CelError as error:
                problem = problem or error
                continue
            if value is verdict:
                if (
                    next(steps, steps) is None
                ):  # the condition is evaluated once more, if there is another element
                    frame[COST] += per_element - 1
                frame[COST] += 1
                return verdict
            if value is not (not verdict):
                problem = problem or NoSuchOverload()
        frame[COST] += 1
        if problem is not None:
            raise problem
        return not verdict

    return run


def list_quantifier(fold: Fold, predicate: Run, verdict: bool) -> Run:
    """The same for one variable, quicker over a list: the most frequent loop of all."""
    source, slot = fold.range, fold.first
    otherwise = quantifier(Fold(itemgetter(slot), slot, None, fold.accumulator), predicate, verdict)
    per_element = 4 if verdict else 3
    other = not verdict

    def run(frame: Frame) -> Any:
        values = source(frame)
        if type(values) is not list:
            frame[slot] = values
            return bool(otherwise(frame))
        problem: CelError | None = None
        limit = frame[LIMIT]
        for index, frame[slot] in enumerate(values):
            try:
                result = predicate(frame)
            except CelError as error:
                problem = problem or error
                continue
            if frame[COST] > limit:
                check_cost(frame)
            if result is other:
                continue
            if result is verdict:
                more = index + 1 < len(values)
                frame[COST] += per_element * (index + 1) + (per_element if more else 1)
                return verdict
            problem = problem or NoSuchOverload()
        frame[COST] += per_element * len(values) + 1
        if problem is not None:
            raise problem
        return other

    return run


def exactly_one(fold: Fold, predicate: Run) -> Run:
    """exists_one(): whether the predicate holds for one element only; the last error counts."""

    def run(frame: Frame) -> Any:
        count, problem = 0, None
        for _ in _each(fold, frame):
            try:
                value = predicate(frame)
            except CelError as error:
                problem = error
                continue
            if value is True:
                frame[COST] += 2
                count += 1
            elif value is not False:
                problem = NoSuchOverload()
        frame[COST] += 2
        if problem is not None:
            raise problem
        return count == 1

    return run


def collect(fold: Fold, element: Run, condition: Run | None, cost: int) -> Run:
    """map(), filter() and transformList(): a list of what `element` gives where the condition holds.

    `cost` is what adding one element costs besides computing it.
    """

    def run(frame: Frame) -> list[Any]:
        result: list[Any] = []
        problem: CelError | None = None
        for _ in _each(fold, frame):
            try:
                if condition is not None:
                    wanted = condition(frame)
                    if wanted is False:
                        continue
                    if wanted is not True:
                        problem = NoSuchOverload()
                        continue
            except CelError as error:
                problem = error
                continue
            try:
                frame[COST] += cost
                result.append(element(frame))
            except CelError as error:
                problem = problem or error
        frame[COST] += 1
        if problem is not None:
            raise problem
        return result

    return run


def insert(fold: Fold, entry: Run, key: Run | None, condition: Run | None) -> Run:
    """transformMap() with `key`, else transformMapEntry(), whose entries are maps."""

    def run(frame: Frame) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        problem: CelError | None = None
        for _ in _each(fold, frame):
            try:
                if condition is not None and not _holds(condition, frame):
                    continue
            except CelError as error:
                problem = error
                continue
            if problem is not None and key is not None:
                frame[COST] += 1  # the failed map is checked first, and nothing else after it
                continue
            try:
                frame[COST] += 2
                pairs = {to_key(key(frame)): entry(frame)} if key is not None else entry(frame)
                _merge(result, pairs)
            except CelError as error:
                problem = problem or error
        frame[COST] += 1
        if problem is not None:
            raise problem
        return result

    return run


def _holds(condition: Run, frame: Frame) -> bool:
    value = condition(frame)
    if value is True or value is False:
        return bool(value)
    raise NoSuchOverload


def _merge(result: dict[Any, Any], pairs: Any) -> None:
    if not isinstance(pairs, dict):
        raise NoSuchOverload(f"no such overload: cel.@mapInsert(map, {kind(pairs)})")
    for key, value in pairs.items():
        if key in result:
            raise CelError(f"insert failed: key {verb_v(from_key(key))} already exists")
        result[key] = value


@dataclass(slots=True)
class Pending:
    """An accumulator that is computed when it is first read; an error is kept and raised at each reading."""

    initial: Run
    value: Any = None
    error: CelError | None = None
    known: bool = False

    def read(self, frame: Frame) -> Any:
        if not self.known:
            self.known = True
            try:
                self.value = self.initial(frame)
            except CelError as error:
                self.error = error
        if self.error is not None:
            raise self.error
        return self.value


def binding(slot: int, initial: Run, result: Run) -> Run:
    """The fold over nothing that optMap() and sortBy() use to name a value."""

    def run(frame: Frame) -> Any:
        frame[slot] = Pending(initial)
        return result(frame)

    return run


def general(fold: Fold, initial: Run, condition: Run, step: Run, result: Run) -> Run:
    """Any other fold, as written."""

    def run(frame: Frame) -> Any:
        state = frame[fold.accumulator] = Pending(initial)
        for _ in _each(fold, frame):
            try:
                if condition(frame) is False:
                    break
            except CelError:
                pass  # an error doesn't end a fold
            try:
                value, error = step(frame), None
            except CelError as problem:
                value, error = None, problem
            state.value, state.error, state.known = value, error, True
        return result(frame)

    return run
