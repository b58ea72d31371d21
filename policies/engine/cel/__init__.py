"""CEL as Kubernetes has it: parsed, checked and run by cel-expr-python, with the API server's libraries and limits.

It knows expressions and values; policies and objects are its callers' business.
"""
