"""Half a day of a made-up cluster, as samples that Prometheus reads: the exporter's pages and the queue's.

The pages are those that the tests of rules and dashboards replay; here they follow the hours of a day.
"""

from __future__ import annotations

import functools
import math
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime

from gpupool.environment.plan.model import Plan
from gpupool.generators.monitoring import exporter, rules
from gpupool.local.monitoring.page import page
from tests.generators.monitoring.queue_page import QueuePage
from tests.generators.monitoring.scraped import cards

_LINE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
_DAY_S = 24 * 3600


def samples(plan: Plan, begin: int, end: int, step: int) -> str:
    """OpenMetrics text of every `step` seconds from `begin` to `end`, metric by metric as it has to be."""
    families: dict[str, list[str]] = defaultdict(list)
    for at, labels, text in _pages(plan, begin, end, step):
        for name, own, value in _LINE.findall(re.sub(r"(?m)^#.*$", "", text)):
            # As a scrape without honorLabels has it: the exporter's own pod has the plain names.
            own = re.sub(r"\b(namespace|pod)=", r"exported_\1=", own)
            families[name].append(f"{name}{{{','.join(filter(None, (own, labels)))}}} {value} {at}")
    lines = [line for name, rows in families.items() for line in (f"# TYPE {name} unknown", *rows)]
    return "\n".join([*lines, "# EOF\n"])


def _pages(plan: Plan, begin: int, end: int, step: int) -> Iterator[tuple[int, str, str]]:
    """(time, labels of the target, its page)."""
    fields = list(exporter.read_fields(plan))
    queue = QueuePage(plan)
    for at in range(begin, end, step):
        for pool in plan.pools:
            labels = f'job="{rules.EXPORTER_JOB}",node="node-{pool.name}",pool="{pool.name}"'
            yield at, labels, page(cards(pool, load(pool.name, at)), fields, at) + "up 1\n"
        yield (
            at,
            'job="gpu-scheduler"',
            queue.text(datetime.fromtimestamp(at, UTC), functools.partial(load, at=at)),
        )


def load(of: str, at: int) -> float:
    """How busy something is: by the hour of the day, and by jobs that last half an hour to some hours."""
    salt = zlib.crc32(of.encode())
    day = 0.5 - 0.35 * math.cos(2 * math.pi * (at % _DAY_S) / _DAY_S + salt % 5)
    jobs = sum(
        (zlib.crc32(f"{of}/{at // length}".encode()) % 100 - 50) / 300 for length in (1800, 4200, 9000)
    )
    return min(0.98, max(0.03, day + jobs))
