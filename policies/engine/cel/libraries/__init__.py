"""The CEL functions that Kubernetes adds, as plain Python functions with their declarations.

Nothing here may know the evaluator: a function gets Python values and returns one, or raises CelError.
"""
