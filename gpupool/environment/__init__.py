"""The environment file and everything derived from it alone: models, the catalog, sharing, the Plan.

`Plan` (`plan.model`) is the interface to everything else: every default filled, every cross-check done,
frozen values, no I/O. The area knows neither clusters nor Pulumi.
"""
