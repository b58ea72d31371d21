"""The client's description of a job, made of the API's request and the queue's own enumerations.

`python -m gpupool.queue.api.client_module` prints the module; `make schema` writes it to
`gpupool/client/job_spec.py`, and a test fails when that is stale.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.queue.api.requests import JobRequest
from gpupool.queue.domain.reasons import REASONS
from gpupool.queue.records import JobState, Level

_HEAD = '''"""What the API says of a job. `make schema` writes this file; it must not be edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, TypedDict

from .gpu_types import GPUType
'''
_SPELLED = {"priority": "JobPriority | str", "gpu_type": "GPUType | str"}
"""Fields whose values the client has a type for; a newer queue may know others."""
_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "object": "Mapping[str, str]",
}
_WIDTH = 104
"""Of a docstring, indented and in quotes (pyproject.toml)."""


def text() -> str:
    """The module as the file holds it."""
    about_priorities = "A job's priority; the environment's priorities say what each may do."
    priorities = {level.name: level.name.lower() for level in reversed(Level)}
    states = {state.name: state.value for state in JobState}
    parts = [
        _HEAD,
        *_enumeration("JobPriority", about_priorities, priorities),
        *_enumeration("JobState", "Where a job stands.", states),
        *_enumeration(
            "WaitReason",
            "Why a job waits.",
            {reason.name: reason.value for reason in REASONS},
            {
                reason.name: f"{words.meaning[:1].upper()}{words.meaning[1:]}."
                for reason, words in REASONS.items()
            },
        ),
        '\n\nclass JobSpec(TypedDict, total=False):\n    """The fields of a job, all optional: either '
        '`container_image` or `target_url` is needed."""\n\n',
        *_fields(JobRequest.model_json_schema()["properties"]),
    ]
    return "".join(parts)


def _enumeration(
    name: str, about: str, members: Mapping[str, str], described: Mapping[str, str] | None = None
) -> Iterator[str]:
    yield f'\n\nclass {name}(StrEnum):\n    """{about}"""\n\n'
    for member, value in members.items():
        yield f'    {member} = "{value}"\n'
        yield _docstring((described or {}).get(member, ""))


def _fields(properties: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, schema in properties.items():
        yield f"    {name}: {_SPELLED.get(name) or _type(schema)}\n"
        yield _docstring(schema.get("description", ""))


def _docstring(sentence: str) -> str:
    quoted = f'"""{sentence}"""'
    lines = textwrap.wrap(quoted, _WIDTH, break_on_hyphens=False) if sentence else []
    return "".join(f"    {line}\n" for line in lines)


def _type(schema: Mapping[str, Any]) -> str:
    """The Python type of a field of JSON; null is not written, it is what leaving out means."""
    variants = [variant for variant in schema.get("anyOf", [schema]) if variant.get("type") != "null"]
    if len(variants) > 1:  # one, or several
        return f"{_type(variants[0])} | Sequence[{_type(variants[0])}]"
    [variant] = variants
    if variant.get("type") == "array":
        return f"list[{_type(variant['items'])}]"
    if "$ref" in variant:
        return "Mapping[str, Any]"
    return _TYPES.get(variant.get("type", ""), "Any")


if __name__ == "__main__":
    print(text(), end="")
