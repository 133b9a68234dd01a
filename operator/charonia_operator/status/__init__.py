"""
From what was observed to `status`: pure functions.

`building.build_status` is the whole of it. `judgement` judges the current revision against the old one: the worst
cause, and the conditions `Ready`, `Stalled` and `Reconciling`; `conditions` derives the others, `model_list` the
models, `news` the Event that a change of status is worth. Nothing is remembered but what the last status holds: when a
condition changed, and the last failure.
"""
