"""The migrations of the arena's tables, one numbered file each."""
