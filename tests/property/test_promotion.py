"""Promotions over random environments in random layouts: complete, nothing else, the same when repeated."""

from __future__ import annotations

import random
import re
from datetime import date
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpupool.review.promote.environment_file import EnvironmentFile, read_environment_file
from gpupool.review.promote.merge import PromotionOptions, promote
from gpupool.review.promote.rules import rules_of
from gpupool.review.promote.shape import differences, leaves, parts, path_of, shape_of
from tests.environment_files import Data, text_of
from tests.environment_strategies import environments
from tests.examples import examples

slow = examples("promotion", 30)
RULES = rules_of(None, date(2027, 1, 1))
Line = tuple[str, tuple[str, ...]]
"""A line of a file, and the field that it is for."""


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Data, Data]:
    """Two environments on one platform that have some pools and priorities in common."""
    platform = draw(st.sampled_from(("eks", "static", "local")))
    source, target = draw(environments(platform)), draw(environments(platform))
    for pool in source["pools"]:
        if draw(st.booleans()) and pool["name"] not in {one["name"] for one in target["pools"]}:
            other = draw(st.sampled_from([pool, *target["pools"]]))
            target["pools"].append({**other, "name": pool["name"]})
    for section, field in (("queue", "retries"), ("policies", "default")):
        for environment in (source, target):
            if draw(st.booleans()):
                values = {"retries": st.integers(0, 20), "default": st.sampled_from(("deny", "warn"))}
                environment[section] = {field: draw(values[field])}
    return source, target


def laid_out(environment: Data, seed: int) -> list[Line]:
    """The environment as lines of YAML: some values in one piece, some as blocks, a comment in every line."""
    dice, lines = random.Random(seed), list[Line]()
    newline = dice.random() < 0.5

    def put(indent: int, dash: str, text: str, loc: tuple[str, ...]) -> None:
        if dice.random() < 0.2:
            lines.append((f"{' ' * indent}# above {len(lines)}", loc))
        lines.append((f"{' ' * indent}{dash}{text}  # {len(lines)}", loc))

    def mapping(value: Data, indent: int, dash: str, loc: tuple[str, ...]) -> None:
        for key, inner in value.items():
            at = (*loc, key)
            written = text_of(key)
            block = isinstance(inner, dict) and inner and dice.random() < 0.5
            if len(at) == 1 and isinstance(inner, list) and inner and newline:
                put(indent, dash, f"{written}:", at)
                for item in inner:
                    mapping(item, indent + 4, "- ", (key, item["name"]))
            elif block:
                put(indent, dash, f"{written}:", at)
                mapping(inner, indent + 2 + len(dash), "", at)
            else:
                put(indent, dash, f"{written}: {text_of(inner)}", at)
            indent, dash = indent + len(dash), ""

    mapping(environment, 0, "", ())
    return lines


def environment_file(lines: list[Line]) -> EnvironmentFile:
    return read_environment_file("random.yaml", "".join(f"{line}\n" for line, _ in lines).encode())


def again(text: str) -> EnvironmentFile:
    return read_environment_file("random.yaml", text.encode())


@slow
@given(pairs(), st.integers(0, 999))
def test_all_is_promoted_and_once_is_enough(pair: tuple[Data, Data], seed: int) -> None:
    source, target = (environment_file(laid_out(environment, seed)) for environment in pair)
    wish = PromotionOptions(delete=True)
    promoted = again(promote(source, target, RULES, wish).text)
    shapes = [parts(shape_of(one.environment), RULES) for one in (source, promoted)]
    assert not differences(*shapes)
    repeated = promote(source, promoted, RULES, wish)
    assert repeated.text == promoted.text
    assert not repeated.changes


@slow
@given(pairs(), st.integers(0, 999))
def test_what_stays_and_what_is_equal_keeps_its_line(pair: tuple[Data, Data], seed: int) -> None:
    source, lines = environment_file(laid_out(pair[0], seed)), laid_out(pair[1], seed)
    target = environment_file(lines)
    promoted = promote(source, target, RULES, PromotionOptions())
    changed = [tuple(one.path.split(".")) for one in promoted.changes]
    kept = iter(promoted.text.splitlines())
    for line, loc in lines:
        if not any(touches(loc, ".".join(one)) for one in changed):
            assert line in kept, (line, promoted.text)


def touches(loc: tuple[str, ...], path: str) -> bool:
    """Whether the line of `loc` may change when the field at `path` does: it holds it, or is part of it, or
    is the pool's machines, which go with the GPU."""
    own = path_of(loc)
    machines = path.endswith(".gpu") and own.startswith(path.removesuffix("gpu") + "nodes")
    return machines or f"{path}.".startswith(f"{own}.") or f"{own}.".startswith(f"{path}.")


@slow
@given(pairs(), st.integers(0, 999))
def test_sizes_and_everything_outside_of_the_pools_stay(pair: tuple[Data, Data], seed: int) -> None:
    source, target = (environment_file(laid_out(environment, seed)) for environment in pair)
    promoted = again(promote(source, target, RULES, PromotionOptions(delete=True)).text)
    theirs = {pool["name"]: pool for pool in pair[0]["pools"]}
    before = {pool["name"]: pool for pool in pair[1]["pools"]}
    for pool in promoted.data["pools"]:
        if pool["name"] in before:
            old = before[pool["name"]]
            for field in ("max", "maxGpus", "warm", "spotShare", "zones", "names", "selector", "gpus"):
                assert pool["nodes"].get(field) == old["nodes"].get(field)
            machines = theirs[pool["name"]] if theirs[pool["name"]]["gpu"] != old["gpu"] else old
            assert pool["nodes"].get("instanceTypes") == machines["nodes"].get("instanceTypes")
            assert pool.get("maintenance") == old.get("maintenance")
    for section in ("metadata", "cluster", "tenants"):
        assert promoted.data[section] == pair[1][section]


@slow
@given(pairs(), st.integers(0, 999), st.data())
def test_only_what_is_asked_for(pair: tuple[Data, Data], seed: int, data: st.DataObject) -> None:
    source, target = (environment_file(laid_out(environment, seed)) for environment in pair)
    names = sorted({pool["name"] for environment in pair for pool in environment["pools"]})
    if not names:
        return
    name = data.draw(st.sampled_from(names))
    promoted = again(promote(source, target, RULES, PromotionOptions(frozenset({name}), delete=True)).text)
    before, after = (flat(one) for one in (target, promoted))
    assert {path for path in {**before, **after} if before.get(path) != after.get(path)} <= {
        path
        for path in {**before, **after, **flat(source)}
        if re.match(rf"pools\.{re.escape(name)}(\.|$)", path)
    }


def flat(one: EnvironmentFile) -> dict[str, Any]:
    return {path_of(loc): value for loc, value in leaves(shape_of(one.environment), ())}
