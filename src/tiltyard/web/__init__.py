"""The live site: routes, templates, static files. Thin: no rule lives here."""
