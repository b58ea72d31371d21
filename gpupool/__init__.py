"""GPU pools as code: one YAML file per environment, everything else derived.

Each folder is an area; docs/architecture.md says what each is for, and what areas import of each other.
"""

__version__ = "0.2.0"
