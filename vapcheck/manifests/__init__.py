"""YAML and JSON files as documents that know their positions, read as kubectl reads them."""
