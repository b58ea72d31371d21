"""The environment file: strict models of what may be written, and its loading with line and column.

It does not interpret the fields; `gpupool.environment.plan` does.
"""
