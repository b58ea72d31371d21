"""For reviewers of a change: the report on two states of a repository, and promotion between files."""
