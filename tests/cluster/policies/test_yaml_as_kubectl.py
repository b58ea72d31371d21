"""The reader of manifests against the kubectl program: the same objects, and failures where kubectl fails.

kubectl asks a server which kinds there are before it reads a file; a server of three fixed answers gives it
of ConfigMaps. One run of kubectl reads many files and goes on after one that is broken. GPUPOOL_FUZZ
multiplies the number of random files.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import generate
from gpupool.generators.render import files
from tests.kubectl import command_line
from tests.required_programs import require
from tests.vapcheck.documents.hard_cases import FILES, KEYS, REFUSED, VALUES
from tests.vapcheck.documents.random_manifests import any_text, plain_text
from vapcheck import read_files, read_text
from vapcheck.manifests import plain_yaml

Object = dict[str, Any]
FILES_AT_ONCE = 400
ROUNDS = int(os.environ.get("GPUPOOL_FUZZ", "1"))


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The command line of kubectl up to its verb."""
    with command_line(require("kubectl")["kubectl"], tmp_path_factory.mktemp("kubectl")) as command:
        yield command


def read_by(kubectl: list[str], folder: Path, texts: list[str]) -> dict[int, list[Object] | None]:
    """What kubectl makes of each text: its objects, or None where it fails. Names identify objects."""
    names = [folder / f"{number}.yaml" for number in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        name.write_bytes(text.encode("utf-8", "surrogatepass"))
    create = [*kubectl, "create", "--dry-run=client", "--validate=false", "-o", "json"]
    for name in names:
        create += ["-f", str(name)]
    environment = {"HOME": "/nonexistent", "PATH": os.environ.get("PATH", "")}
    done = subprocess.run(create, capture_output=True, env=environment, timeout=300, check=False)
    out, said = done.stdout.decode(), done.stderr.decode()
    found: dict[int, list[Object] | None] = {number: [] for number in range(len(texts))}
    while out:
        body, end = json.JSONDecoder().raw_decode(out)
        out = out[end:].lstrip()
        for item in body["items"] if body["kind"] == "List" else [body]:
            item["metadata"].pop("namespace", None)
            listed = found[int(item["metadata"]["name"].partition("-")[0].removeprefix("f"))]
            assert listed is not None
            listed.append(item)
    for number, name in enumerate(names):
        if str(name) in said:
            found[number] = None
    return found


def ours(texts: list[str], folder: Path) -> dict[int, list[Object] | None]:
    """What our reader makes of the files that `read_by` wrote."""
    found: dict[int, list[Object] | None] = {}
    for number in range(len(texts)):
        documents, findings = read_files([folder / f"{number}.yaml"])
        fatal = [finding for finding in findings if finding.remediation not in TOLD_ONLY]
        found[number] = None if fatal else [document.body for document in documents]
    return found


TOLD_ONLY = ("keep one; kubectl uses the last", "start it with --- on a separate line")
"""Hints of findings about what kubectl does in silence."""
NAME = re.compile(r'(name"?: "?)([abc])\b')


def mark(number: int, text: str) -> str:
    """Names that show which file an object is from."""
    return NAME.sub(rf"\g<1>f{number}-\2", text).replace("NAME", f"f{number}-x")


def compare(kubectl: list[str], folder: Path, texts: list[str]) -> list[int | None]:
    """Compares for every text; returns how many objects each has, None for a failure."""
    marked = [mark(number, text) for number, text in enumerate(texts)]
    theirs, found = read_by(kubectl, folder, marked), ours(marked, folder)
    differ = []
    for number, text in enumerate(marked):
        for body in found[number] or ():
            body["metadata"].pop("namespace", None)
        if typed(found[number]) != typed(theirs[number]):
            differ.append(f"file {number}: {text!r}\n  kubectl: {theirs[number]}\n  ours: {found[number]}")
    assert not differ, f"{len(differ)} texts, among them\n" + "\n".join(differ[:5])
    return [None if row is None else len(row) for row in theirs.values()]


def typed(value: Any) -> Any:
    """For comparing: 1 and True are two things. What the server reads of a number over 64 bits is a float."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        value = float(value)
    return type(value), value


HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\nouter:\n  "


def test_values(kubectl: list[str], tmp_path: Path) -> None:
    found = compare(kubectl, tmp_path, [f"{HEAD}value: {text}\n" for text, _ in VALUES])
    assert found == [None if expected is REFUSED else 1 for _, expected in VALUES]


def test_keys(kubectl: list[str], tmp_path: Path) -> None:
    found = compare(kubectl, tmp_path, [f"{HEAD}{text}: x\n" for text, _ in KEYS])
    assert found == [None if expected is REFUSED else 1 for _, expected in KEYS]


def test_whole_files(kubectl: list[str], tmp_path: Path) -> None:
    found = compare(kubectl, tmp_path, [text for text, _ in FILES])
    assert found == [len(names) if isinstance(names, list) else None for _, names in FILES]


@pytest.mark.parametrize("number", range(3 * ROUNDS))
def test_random_files(kubectl: list[str], tmp_path: Path, number: int) -> None:
    texts = [any_text(random.Random(number * FILES_AT_ONCE + seed)) for seed in range(FILES_AT_ONCE)]
    found = compare(kubectl, tmp_path, texts)
    assert FILES_AT_ONCE // 20 < found.count(None) < FILES_AT_ONCE * 19 // 20


@pytest.mark.parametrize("number", range(ROUNDS))
def test_random_plain_files(kubectl: list[str], tmp_path: Path, number: int) -> None:
    """The fast reader's texts, which must be read by it."""
    texts = []
    for seed in range(FILES_AT_ONCE * 4):
        text = plain_text(random.Random(number * FILES_AT_ONCE * 4 + seed))
        texts.append(f"{HEAD}".replace("  ", "") + "".join(f"  {line}\n" for line in text.splitlines()))
    plain = [text for text in texts if plain_yaml.read(text) is not NotImplemented][:FILES_AT_ONCE]
    assert len(plain) > FILES_AT_ONCE // 3
    assert None not in compare(kubectl, tmp_path, plain)


def test_rendered_environments(kubectl: list[str], tmp_path: Path) -> None:
    """Our own manifests, as ConfigMaps, since kubectl gets no other kind."""
    texts = []
    for text in files(generate(read_plan("prod"))).values():
        if read_text(text, "f")[0]:
            text = re.sub(r"^apiVersion: .*", "apiVersion: v1", text, flags=re.MULTILINE)
            text = re.sub(r"^kind: .*", "kind: ConfigMap", text, flags=re.MULTILINE)
            texts.append(re.sub(r"^  name: .*", "  name: NAME", text, count=1, flags=re.MULTILINE))
    assert None not in compare(kubectl, tmp_path, texts)
