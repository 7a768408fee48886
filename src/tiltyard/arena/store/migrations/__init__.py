"""The steps that bring a database from any earlier version to this one; Alembic runs them in order."""
