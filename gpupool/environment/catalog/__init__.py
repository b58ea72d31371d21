"""GPU models: one YAML file each in this folder, the project's own beside them, and their only readers."""
