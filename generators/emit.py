"""Values to YAML text that every reader reads alike: stable bytes, and quotes wherever readers differ.

PyYAML writes `y`, `1e3` or `0o17` without quotes and kubectl then reads truth values and numbers
(sigs.k8s.io/yaml follows YAML 1.1). Here a string goes plain only where no reader could take it for
anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*(:[A-Za-z0-9_./-]+)*")
"""Starts with a letter or slash, so it is no number, date or indicator."""
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})


_BLOCK = re.compile(r"[!-~][ -~]*\n([ -~]*\n)*")
"""Lines of printable ASCII, which a literal block keeps as they are."""


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the library's signature
        return True


def _text(_: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return yaml.ScalarNode("tag:yaml.org,2002:str", value)
    style = "|" if _BLOCK.fullmatch(value) else '"'
    return yaml.ScalarNode("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def yaml_text(value: Any) -> str:
    """`value` as one YAML document. Keys keep their order; no line is folded."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=1 << 20, allow_unicode=True)
    return text


def documents(values: Iterable[Mapping[str, Any]]) -> str:
    """`values` as a stream of YAML documents, as `kubectl apply -f -` takes it."""
    return "---\n".join(yaml_text(dict(value)) for value in values)
