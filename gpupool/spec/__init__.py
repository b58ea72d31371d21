"""The environment file: strict models of what may be written, and its loading with line and column.

It knows nothing of what the words mean; that is `gpupool.plan`.
"""
