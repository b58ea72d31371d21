"""What reviewers of a change see: the report of two states of a repository, and promotion between files."""
