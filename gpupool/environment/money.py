"""How sums of money are written for people, the same everywhere."""

from __future__ import annotations

from math import copysign

LEAST = 1e-6
"""The smallest sum that anything is charged in."""


def digits(amount: float) -> str:
    """US dollars as a number to the cent, below ten cents with all digits: `1,234.00`, `0.50`, `0.0042`. What
    is not 0 is never shown as 0."""
    if not 0 < abs(amount) < 0.1:
        return f"{amount:,.2f}"
    whole, _, cents = f"{copysign(max(abs(amount), LEAST), amount):.6f}".partition(".")
    return f"{whole}.{cents.rstrip('0').ljust(2, '0')}"


def usd(amount: float) -> str:
    """US dollars, without cents where there are none or the sum is large: `$1,234`, `$0.50`, `$0.0042`."""
    return f"${amount:,.0f}" if amount == round(amount) or amount >= 100 else f"${digits(amount)}"


def usd_exact(amount: float) -> str:
    """US dollars to the cent or below, for sums that are compared: `$300,000`, `$512,168.08`, `$0.0042`."""
    return f"${amount:,.0f}" if amount == round(amount) else f"${digits(amount)}"
