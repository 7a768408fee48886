"""A week of an arena: whether its board can be trusted, as a page, as Markdown and as JSON."""
