"""pip, which installs spec.python."""

from charonia_operator.reasons import Reason
from charonia_operator.remedies.rule import Rule, rule

_PIP = {Reason.PACKAGES_FAILED}

RULES: tuple[Rule, ...] = (
    rule(_PIP, r"ProxyError|cannot connect to proxy|tunnel connection failed|proxy authentication required",
         "pip does not get through its proxy: correct `proxy` in pip.conf (spec.python.configSecretRef), or "
         "HTTPS_PROXY of container python-packages in spec.podTemplate."),
    rule(_PIP, r"CERTIFICATE_VERIFY_FAILED|certificate verify failed",
         "Give `cert` in pip.conf (spec.python.configSecretRef): the index's certificate is not trusted."),
    rule(_PIP, r"40[13] (Client )?Error|401 Unauthorized|403 Forbidden|User for .*:",
         "Give the index's user and password in pip.conf (spec.python.configSecretRef)."),
    rule(_PIP, r"NewConnectionError|name resolution|name or service not known|connection (refused|broken|timed out)|"
               r"ConnectTimeout|ReadTimeout|Max retries exceeded|network is unreachable",
         "pip does not reach its index: correct spec.python.indexUrl, or let the network and its policies through."),
    rule(_PIP, r"exit code 124\b", "pip was stopped: raise spec.python.timeoutSeconds."),
    rule(_PIP, r"could not open requirements file", "Correct spec.python.requirementsPath."),
    rule(_PIP, r"invalid requirement", "Correct spec.python.requirements."),
    rule(_PIP, r"ResolutionImpossible|conflicting dependencies",
         "Correct spec.python.requirements: these versions exclude each other."),
    rule(_PIP, r"no matching distribution found for (?P<what>[^\s(]+)",
         "Correct {what} in spec.python.requirements: the index has none that suits the server image's Python."),
    rule(_PIP, r"THESE PACKAGES DO NOT MATCH THE HASHES|Hashes are required",
         "Correct the hashes in spec.python.requirements, or set spec.python.requireHashes: false."),
    rule(_PIP, r"no space left on device", "Raise spec.resources.limits.ephemeral-storage, or install less."),
)  # fmt: skip
