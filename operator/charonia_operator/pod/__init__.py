"""
The pod template of a service, built from nothing but its spec and the operator's settings.

`template` puts together what the other modules make: the containers that copy the models (`sync`), that install Python
packages (`packages`) and that serve (`server`), the volumes they share (`volumes`), where pods may run (`placement`),
and last the user's own changes (`merging`). Pure functions from frozen dataclasses to JSON.
"""
