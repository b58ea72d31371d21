"""Verbs are imported when they are run; help knows all of them all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_command

from gpupool.cli.app import GROUPS, RENAMED, VERBS, app

GPUPOOL = Path(sys.executable).with_name("gpupool")

LISTING = """
import sys
from gpupool.cli.main import run
try:
    run()
finally:
    print(*sorted(sys.modules))
"""
"""Runs the command line and prints what it has imported."""


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_can_be_made(name: str) -> None:
    command = get_command(app).get_command(None, name)  # type: ignore[attr-defined]
    assert command.name == name
    assert command.help
    assert VERBS[name] in sys.modules


def test_help_lists_the_verbs_in_their_order_each_with_a_whole_sentence() -> None:
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(
        [str(GPUPOOL), "--help"], capture_output=True, text=True, check=True, env=environment
    )
    shown = done.stdout.split(next(iter(GROUPS)) + ":\n")[1].splitlines()
    listed = [tuple(line.split(maxsplit=1)) for line in shown if line.startswith("  ")]
    assert listed == [(name, verb.summary) for verbs in GROUPS.values() for name, verb in verbs.items()]
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert all(title + ":" in shown for title in list(GROUPS)[1:])


@pytest.mark.parametrize("group", ["jobs", "local", "policy", "keys"])
def test_help_of_a_group_cuts_no_sentence(group: str) -> None:
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(
        [str(GPUPOOL), group, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    shown = done.stdout.split("Commands:\n")[1]
    assert "..." not in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_a_typing_error_is_wrong_use_with_a_suggestion() -> None:
    done = subprocess.run([str(GPUPOOL), "polcy"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "policy" in done.stderr


@pytest.mark.parametrize("verb", ["mig --help", "policy check --help", "render --help"])
def test_a_verb_imports_nothing_of_the_others(verb: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LISTING, *verb.split()],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert VERBS[verb.split()[0]] in loaded
    others = {place for name, place in VERBS.items() if name != verb.split()[0]} - {VERBS[verb.split()[0]]}
    assert not loaded & others
    assert not loaded & {"pulumi", "kubernetes", "rich"}


def test_no_verb_is_named_in_vain() -> None:
    for name, place in VERBS.items():
        module = import_module(place)
        verb = getattr(module, name, None) or getattr(module, f"{name}_", None)
        assert callable(verb) or hasattr(module, "app")


@pytest.mark.parametrize(("old", "new"), [*RENAMED.items()])
def test_an_old_name_is_refused_with_the_new_one(old: str, new: str) -> None:
    done = subprocess.run([str(GPUPOOL), old, "prod"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{old} is now called {new}; run gpupool {new}" in done.stderr
