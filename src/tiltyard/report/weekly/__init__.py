"""The weekly validity report of an arena, as a page, as Markdown and as JSON."""
