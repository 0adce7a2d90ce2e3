"""What makes the pages in docs/ a site: see mkdocs.yml."""
