"""python -I -S launcher.py REPORT own|tree COMMAND...: runs a program and writes what it took into REPORT.

A process of its own, and a small one, because Linux counts the memory of the process that starts a program
towards the program's peak: started by the benchmark itself, it would show the benchmark's. Standard library
only.

`own`: the peak of the largest process, which the kernel knows exactly. `tree`: that of all processes
together, sampled, which takes processor time from what is measured: its seconds are no figure.
"""

import json
import os
import subprocess
import sys
import time

_PAUSE = 0.005


def main() -> None:
    report, memory, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    started = time.perf_counter()
    process = subprocess.Popen(command)
    together = watched(process.pid) if memory == "tree" else 0
    _, status, usage = os.wait4(process.pid, 0)
    taken = time.perf_counter() - started
    code = os.waitstatus_to_exitcode(status)
    process.returncode = code
    with open(report, "w") as file:
        json.dump({"seconds": taken, "kibibytes": max(usage.ru_maxrss, together), "code": code}, file)


def watched(pid: int) -> int:
    """The most KiB that the process and its descendants were seen to have together, until it ends."""
    most = 0
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        most = max(most, together([row for one in descent(pid) if (row := rollup(one))]))
        time.sleep(_PAUSE)
    if not most:
        sys.exit("no /proc/PID/smaps_rollup was read; the memory of several processes is measured on Linux")
    return most


def together(rows: list[dict[str, int]]) -> int:
    """Memory that processes share counts once. Files (libraries) by the process that has most of them: their
    proportional share is smaller the more unrelated processes run the same Python."""
    if not rows:
        return 0
    files = max(row["Rss"] - row["Anonymous"] for row in rows)
    return files + sum(row["Pss_Anon"] for row in rows)


def descent(pid: int) -> list[int]:
    """The process, and all that descend from it."""
    found = [pid]
    for one in found:
        try:
            for thread in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{thread}/children") as file:
                    found += [int(word) for word in file.read().split()]
        except OSError:
            pass  # it has ended meanwhile
    return found


def rollup(pid: int) -> dict[str, int]:
    """The sums of its mappings in KiB, as Linux names them; nothing when it has ended."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            next(file)
            return {name: int(rest.split()[0]) for name, rest in (line.split(":") for line in file)}
    except (OSError, StopIteration):
        return {}


if __name__ == "__main__":
    main()
