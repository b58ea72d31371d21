"""Pulumi's plugins: which Kubernetes provider is used, and a Python language host if none is installed.

`gpupool up` needs the provider alone. Plain `pulumi` also needs a language host, which is part of Pulumi's
releases and in no Go module or Python package (`language`).
"""
