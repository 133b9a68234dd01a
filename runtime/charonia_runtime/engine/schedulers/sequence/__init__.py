"""
Sequence batching: `scheduler.SequenceScheduler` and its parts, the slots, the backlog, the two strategies, the controls.

State machines without I/O, as their siblings.
"""
