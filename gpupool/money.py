"""How sums of money are written for people, the same everywhere."""

from __future__ import annotations


def usd(amount: float) -> str:
    """US dollars, without cents where there are none: `$1,234`, `$0.50`."""
    return f"${amount:,.0f}" if amount == round(amount) or amount >= 100 else f"${amount:,.2f}"


def usd_exact(amount: float) -> str:
    """US dollars to the cent, for sums that are compared: `$300,000`, `$512,168.08`."""
    return f"${amount:,.0f}" if amount == round(amount) else f"${amount:,.2f}"
