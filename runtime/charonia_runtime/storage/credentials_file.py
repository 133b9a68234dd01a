"""Triton's credential file: the JSON document that `TRITON_CLOUD_CREDENTIAL_PATH` names."""

import json
import os
from typing import Any

from charonia_runtime.storage.failures import CredentialsError
from charonia_runtime.storage.location import Location

_VARIABLE = "TRITON_CLOUD_CREDENTIAL_PATH"


def credentials_file_entry(location: Location) -> Any:
    """
    Return what the file holds for a repository: the entry whose name is the longest beginning of its URI.

    The form of an entry depends on the scheme: settings by name for `s3` and `as`, the path of a key for `gs`. None
    where the variable is not set or no entry fits. Raises CredentialsError for a file that cannot be read.
    """
    path = os.environ.get(_VARIABLE)
    if not path:
        return None
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            entries: dict[str, Any] = json.load(file).get(location.scheme, {})
        uris = _spellings(location)
        fitting = [name for name in entries if any(uri.startswith(name) for uri in uris)]
        return entries[max(fitting, key=len)] if fitting else None
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise CredentialsError(f"cannot read the credential file {path}: {error}") from error


def _spellings(location: Location) -> list[str]:
    """Every way in which an entry may write the repository's URI."""
    host = location.endpoint
    places = ("", f"{host}/", f"{host.partition('://')[2]}/")
    return [location.uri, *(f"{location.scheme}://{place}{location.bucket}/{location.prefix}" for place in places)]
