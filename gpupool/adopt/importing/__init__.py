"""Writes the environment file of a live cluster, with `gpupool.adopt.convert`."""
