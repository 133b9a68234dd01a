"""
What users ask for: the body of an InferenceService as frozen dataclasses.

Belongs here: fields, defaults, and the rules between fields that the operator relies on. `reading` turns a body into
any of these dataclasses and names the path of each fault; the other modules are one part of `spec` each. The schema in
`crds/inferenceservice.yaml` says the same to the API server; a test compares the two field by field.
Imports nothing of the operator.
"""
