"""Finds or builds the programs that gpupool runs, from pinned sources.

Nothing here depends on what they are used for.
"""
