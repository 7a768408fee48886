"""What can happen in an arena and what it adds up to. Pure: no clock, database or randomness of its own.

Everything else in the arena depends on these files; boards of old logs change with them.
"""
