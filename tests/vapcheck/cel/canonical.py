"""CEL values as the text in which expectations.json has them: one text for each value, whatever its kind."""

import json
from typing import Any

from vapcheck.cel import times
from vapcheck.cel.values import Duration, Optional, Timestamp, TypeValue, Uint, from_key, kind
from vapcheck.go_text import double_g


def canonical(value: Any) -> str:
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Uint):
        return f"{int(value)}u"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return "d" + double_g(value)
    if isinstance(value, bytes):
        return "b" + value.hex()
    if isinstance(value, Duration):
        return f"dur{value.nanoseconds}"
    if isinstance(value, Timestamp):
        return "ts" + times.text(value)
    if isinstance(value, TypeValue):
        return "type " + value.name
    if isinstance(value, Optional):
        return f"some({canonical(value.value)})" if value.present else "none"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, dict):
        return (
            "{" + ",".join(sorted(f"{canonical(from_key(k))}:{canonical(v)}" for k, v in value.items())) + "}"
        )
    return "opaque " + kind(value)
