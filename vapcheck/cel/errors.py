"""What compiling and evaluating an expression may raise.

The texts are those of the API server (cel-go), because users of policies compare them.
"""

from __future__ import annotations


class EvaluationError(Exception):
    """An evaluation without a value. `str()` is what cel-go says: "no such key: foo", "division by zero"."""


class CelError(EvaluationError):
    """An evaluation that failed; `||`, `&&` and macros absorb it where something else settles them."""


class NoSuchOverload(CelError):
    """No implementation of a function or operator fits the kinds of its arguments."""

    def __init__(self, text: str = "no such overload") -> None:
        super().__init__(text)


class Halted(EvaluationError):
    """An evaluation that was stopped; nothing absorbs it."""


class InternalError(Halted):
    """A failure inside cel-go that ends the evaluation of the API server at once."""

    def __init__(self, text: str) -> None:
        super().__init__(f"internal error: {text}")


class CostExceeded(Halted):
    """One expression cost more than its limit (cel-go's EvalCancelledError)."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class BudgetExceeded(Halted):
    """The expressions of one policy together cost more than the budget of a request."""

    def __init__(self) -> None:
        super().__init__(
            "validation failed due to running out of cost budget, no further validation rules will be run"
        )


class CompileError(Exception):
    """An expression that is refused before anything is evaluated. Line and column count from 1."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
