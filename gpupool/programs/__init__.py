"""Where the programs that gpupool runs come from: found, or built from pinned sources.

Nothing here knows what they are run for.
"""
