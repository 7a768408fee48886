"""A vote's way: commands, the limits of a visitor, and the one writer that turns them into events.

Whoever changes the order of steps here runs the tests that kill processes.
"""
