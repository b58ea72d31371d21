"""What hand-written settings convert to, file by file, and what is said to be left.

Each folder of `convert/` is a case: `input/` with the files, `choices.json` with what the caller says,
`environment.yaml` and `listing.txt` as they are expected. `make golden` writes the expected files again; read
the difference before committing it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpupool.adopt.convert.convert import Conversion, convert
from gpupool.adopt.convert.documents import parse_documents
from gpupool.adopt.convert.draft import Choices
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source

HERE = Path(__file__).parent / "convert"
WRITING = bool(os.environ.get("GPUPOOL_WRITE_GOLDEN"))
CASES = sorted(path.name for path in HERE.iterdir())


def conversion_of(case: str) -> Conversion:
    files = sorted((HERE / case / "input").iterdir())
    said = HERE / case / "choices.json"
    choices = json.loads(said.read_text(encoding="utf-8")) if said.exists() else {}
    documents = []
    for file in files:
        found, findings = parse_documents(file.name, file.read_bytes())
        assert not findings
        documents += found
    return convert(documents, Choices(sources=tuple(file.name for file in files), **choices))


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 12


@pytest.mark.parametrize("case", CASES)
def test_conversion(case: str) -> None:
    result = conversion_of(case)
    listing = "".join(f"{entry.category}: {entry}\n" for entry in result.leftovers)
    for name, said in (("environment.yaml", result.text), ("listing.txt", listing)):
        expected = HERE / case / name
        if WRITING:
            expected.write_text(said, encoding="utf-8")
        assert said == expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES)
def test_what_is_written_is_valid(case: str) -> None:
    """A pool that can't be is left out, so the rest of the file can be used as it is."""
    result = conversion_of(case)
    assert result.findings == ()
    plan = resolve(check_shape(parse_source("converted.yaml", result.text.encode())))
    assert [pool.name for pool in plan.pools] == list(result.pools)


@pytest.mark.parametrize("case", CASES)
def test_every_value_is_accounted_for(case: str) -> None:
    counts = conversion_of(case).counts
    assert sum(counts.values()) > 0
    assert set(counts) == {"used", "derived", "cluster", "listed"}
