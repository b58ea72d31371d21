"""YAML and JSON files -> documents that remember where they stand, read as kubectl reads them."""
