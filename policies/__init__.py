"""Policies: data (`*.yaml` beside this file), an engine that judges by them offline, rules over bundles.

The YAML files are ordinary ValidatingAdmissionPolicies and bindings. Nothing here may import `generators`,
`infra` or `cli`.
"""
