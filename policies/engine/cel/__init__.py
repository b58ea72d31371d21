"""CEL as Kubernetes has it: cel-expr-python with the API server's libraries, refusals and limits.

It knows expressions and values; policies and objects are its callers' business.
"""
