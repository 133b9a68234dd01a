"""
From what was observed to `status`: pure functions.

`building.build_status` is the whole of it; `conditions` derives the conditions, `model_list` the models. Nothing is
remembered but what the last status holds: when a condition changed, and the last failure.
"""
