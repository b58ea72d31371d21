"""The same policies as a Pulumi policy pack.

It hands resources to the engine and findings to Pulumi, and must not judge anything itself.
"""
