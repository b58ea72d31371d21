"""What an environment may cost, as a section of the environment file. As free of cross-checks as the rest."""

from __future__ import annotations

from gpupool.spec.field_types import Model, Usd


class Cost(Model):
    monthly_usd_max: Usd | None = None
    """Most that all pools at their maximum may cost a month, and that tenants' budgets may add up to, in USD;
    default: no ceiling."""
