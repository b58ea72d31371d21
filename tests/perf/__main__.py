"""`make bench`: measures every figure, compares it with expectations.yaml, exits 1 when one is missed.

python -m tests.perf [FIGURE...] [--format json]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from gpupool.cli.output import print_error, print_json, print_table
from tests.perf.figures import FIGURES, measure
from tests.perf.measure import Failed

EXPECTED: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("expectations.yaml").read_text()
)["figures"]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.perf", description="Measure, and compare with expectations."
    )
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"default: all of {', '.join(EXPECTED)}")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.figures if name not in EXPECTED]
    if unknown:
        parser.error(f"no figure {unknown[0]!r}; there are: {', '.join(EXPECTED)}")
    rows = _measured(set(arguments.figures or EXPECTED))
    if arguments.format == "json":
        print_json({"figures": rows})
    else:
        cells = [
            (
                row["name"],
                _shown(row["measured"], row["unit"]),
                f"at most {_shown(row['expected'], row['unit'])}",
                "held" if row["held"] else "missed",
                EXPECTED[row["name"]]["title"],
            )
            for row in rows
        ]
        print_table(("figure", "measured", "expected", "verdict", "what"), cells, right=("measured",))
    return 0 if all(row["held"] for row in rows) else 1


def _measured(wanted: set[str]) -> list[dict[str, Any]]:
    rows = list[dict[str, Any]]()
    for measured_by, names in FIGURES:
        if not wanted & set(names):
            continue
        print(f"measuring {', '.join(names)} ...", file=sys.stderr, flush=True)
        found: dict[str, float] = {}
        try:
            for figure in measure(measured_by):
                found.update([figure])
        except Failed as error:
            print_error(str(error))
        rows += [_row(name, found.get(name)) for name in names if name in wanted]
    return rows


def _row(name: str, value: float | None) -> dict[str, Any]:
    expected = EXPECTED[name]
    return {
        "name": name,
        "measured": None if value is None else round(value, 4),
        "expected": expected["at_most"],
        "unit": expected["unit"],
        "held": value is not None and value <= expected["at_most"],
    }


def _shown(value: float | None, unit: str) -> str:
    return "failed" if value is None else f"{value:.3g} {unit}"


if __name__ == "__main__":
    sys.exit(main())
