"""What can happen in an arena and what it adds up to. No database: time and chance are handed to its rules.

Everything else in the arena depends on these files; boards of old logs change with them.
"""
