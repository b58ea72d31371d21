"""How findings are printed: one module per format, the same for every command that has any."""
