"""Where the programs that gpupool runs come from: found, or built from pinned sources.

Nothing here depends on what they are used for.
"""
