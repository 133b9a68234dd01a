"""
Runs models: finds them in repositories, loads, schedules, executes, counts, unloads.

Implements `core.server.InferenceServer`. Knows no wire and no concrete backend: it is given a function that finds a
backend by its name. All state belongs to the event loop's thread; instance threads touch only the batch they were
handed and their own backend instance, hence no locks here.
"""
