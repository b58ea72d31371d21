"""The environment file: its strict models, and loading it with line and column.

It does not interpret the fields; `gpupool.environment.plan` does.
"""
