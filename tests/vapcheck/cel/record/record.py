"""Write ../expectations.json again with a built record program: record.py PROGRAM [FILE-OF-EXPRESSIONS].

Cases whose outcome depends on the order of a Go map are left out: each is recorded three times.
"""

import json
import subprocess
import sys
from pathlib import Path

FILE = Path(__file__).parent.parent / "expectations.json"
NAMES = {"google.protobuf.Timestamp": "timestamp", "google.protobuf.Duration": "duration"}


def outcomes(program: str, expressions: list[str], values: dict) -> list[dict]:
    lines = "".join(json.dumps({"e": expression, "v": values}) + "\n" for expression in expressions)
    run = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def case(expression: str, outcome: dict) -> dict:
    if "compile" in outcome:
        return {"expression": expression, "refused": outcome["compile"]}
    signature = outcome["type"]
    for name, short in NAMES.items():
        signature = signature.replace(name, short)
    kept = {name: outcome[name] for name in ("value", "error") if name in outcome}
    return {"expression": expression, "type": signature, "cost": outcome["cost"]} | kept


def main(program: str, *more: str) -> None:
    document = json.loads(FILE.read_text())
    expressions = [entry["expression"] for entry in document["cases"]]
    for file in more:
        expressions += [
            line for line in Path(file).read_text().splitlines() if line and line not in expressions
        ]
    runs = [outcomes(program, expressions, document["values"]) for _ in range(3)]
    cases = [
        case(expression, one)
        for expression, one, two, three in zip(expressions, *runs, strict=True)
        if one == two == three
    ]
    body = ",\n".join("  " + json.dumps(entry, ensure_ascii=False) for entry in cases)
    head = ",\n".join(
        f' "{key}": {json.dumps(document[key], ensure_ascii=False)}' for key in ("source", "values")
    )
    FILE.write_text("{\n" + head + ',\n "cases": [\n' + body + "\n ]\n}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
