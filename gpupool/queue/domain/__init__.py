"""The queue's decision: which job runs where, and why the others wait.

Pure functions of values: no clock, no I/O, no randomness, so that the simulator runs the very same code. It
imports the standard library, the Plan and `gpupool.queue.records` alone.
"""
