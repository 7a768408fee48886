"""What one can ask of Tiltyard, one file a verb: the story behind each command, function and tool.

A verb takes what its command takes, asks nobody, prints nothing, and returns one record, which renders itself.
"""
