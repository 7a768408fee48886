"""The live site: routes, templates, static files. Thin: it contains no rules."""
