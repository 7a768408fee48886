"""Parts of pages without a domain: markup, SVG, and how numbers and dates read."""
