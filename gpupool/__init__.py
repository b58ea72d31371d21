"""The core of gpupool: environment file, catalog, sharing arithmetic and the Plan they resolve to.

Everything else may import this package; it imports nothing of the rest, does no network I/O and knows
neither Pulumi nor Kubernetes clients.
"""

__version__ = "0.2.0"
