"""
Decide which requests run together and when: one state machine a file, sans-I/O, with time as an argument.

No threads, no event loop, no clock: `engine.model` calls them and acts on what they say.
"""
