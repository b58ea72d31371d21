"""`python -m gpupool.local`: get all that the control plane, the tests and the benchmark need; start nothing.

What CI runs before its tests, so that minutes of building are not taken for a slow test. Arguments name
programs that few tests need and that are got as well.
"""

from __future__ import annotations

import sys

from gpupool.local import crds
from gpupool.programs import binaries
from gpupool.programs.failures import LocalError

if __name__ == "__main__":
    try:
        if unknown := [name for name in sys.argv[1:] if name not in binaries.programs()]:
            raise LocalError(
                f"unknown program {', '.join(unknown)}; programs: {', '.join(binaries.programs())}"
            )
        usual = [program.name for program in binaries.programs().values() if not program.seldom]
        binaries.locate_all([*usual, *sys.argv[1:]], lambda step: print(step, flush=True))
        crds.definitions(lambda step: print(step, flush=True))
    except LocalError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
