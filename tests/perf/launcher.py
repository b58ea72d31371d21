"""python -I -S launcher.py REPORT COMMAND...: runs a program and writes what it took into REPORT.

A process of its own, and a small one, because Linux counts the memory of whoever starts a program towards
the program's peak: started by the benchmark itself, it would show the benchmark's. Standard library only.
"""

import json
import os
import subprocess
import sys
import time


def main() -> None:
    report, command = sys.argv[1], sys.argv[2:]
    started = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    taken = time.perf_counter() - started
    code = os.waitstatus_to_exitcode(status)
    process.returncode = code
    with open(report, "w") as file:
        json.dump({"seconds": taken, "kibibytes": usage.ru_maxrss, "code": code}, file)


if __name__ == "__main__":
    main()
