"""
One loaded version of a model at work: admission of requests, batches, instances, answers, warm-up.

`model.Model` is what the life cycle loads and `copies.ModelCopy` what it knows of it. Which requests run together is
decided by `engine.schedulers`; here are the clock, the threads and the counting. Nothing here knows a repository.
"""
