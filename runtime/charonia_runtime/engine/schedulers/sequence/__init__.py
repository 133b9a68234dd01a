"""
Sequence batching: `scheduler.SequenceScheduler` and its parts, slots, backlog, controls and the two strategies.

State machines without I/O, as their siblings.
"""
