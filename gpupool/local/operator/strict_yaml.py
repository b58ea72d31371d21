"""Read YAML that upstream parsers would silently accept, and refuse what they would ignore.

Misspelt keys vanish in the device plugin's and mig-parted's own parsers; here they are errors with their
place, because finding such mistakes is what the simulated operator is for.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import yaml


class ConfigError(ValueError):
    """A configuration that the operand would not apply as intended; `str()` names the place and the fix."""


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses a key that is given twice."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
    twice = {key for key in keys if keys.count(key) > 1}
    if twice:
        raise ConfigError(f"line {node.start_mark.line + 1}: key given twice: {', '.join(map(str, twice))}")
    loader.flatten_mapping(node)
    return dict(loader.construct_pairs(node, deep=True))


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def parse(text: str) -> dict[str, Any]:
    """The mapping in `text`. Raises ConfigError for anything else."""
    try:
        value = yaml.load(text, Loader=_Loader)
    except ConfigError:
        raise
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        # PyYAML accepts some as they are: dates that don't exist, lists as keys, endless nesting.
        raise ConfigError(f"not YAML: {error}") from error
    return mapping(value, "the file")


def mapping(value: Any, place: str) -> dict[str, Any]:
    """`value` as a mapping."""
    if not isinstance(value, dict):
        raise ConfigError(f"{place}: expected a mapping, not {value!r}")
    return value


def only(value: dict[str, Any], known: Collection[str], place: str) -> None:
    """Refuse keys that the operand does not know."""
    unknown = [str(key) for key in value if key not in known]
    if unknown:
        raise ConfigError(f"{place}: unknown {', '.join(unknown)}; known: {', '.join(sorted(known))}")


def version(value: dict[str, Any]) -> None:
    """Both operands know one version of their format."""
    if value.get("version") != "v1":
        raise ConfigError(f"version: {value.get('version')!r}; expected v1")
