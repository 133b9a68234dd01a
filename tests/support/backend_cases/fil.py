"""The `fil` backend has one kind of model, whose tensors have fixed names: it takes part with its own tests only."""

LIBRARY = "treelite"
DATATYPES = ()
