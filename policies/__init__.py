"""Policies: data (`*.yaml` beside this file), the engine that judges by them offline, and rules over whole bundles.

The YAML files are ordinary ValidatingAdmissionPolicies and bindings. Nothing here may import `generators`,
`infra` or `cli`.
"""
