"""The chart's rules are exactly what the operator's code can ask for."""

from pathlib import Path

import yaml

from charonia_operator.naming import EVENT, INFERENCE_SERVICE, POD
from charonia_operator.resources import kinds

RULES = Path(__file__).resolve().parents[2] / "charts/charonia/rules.yaml"
CHILD = {"create", "delete", "get", "list", "patch", "watch"}


def allowed():
    found = {}
    for rule in yaml.safe_load(RULES.read_text()):
        assert rule.keys() == {"apiGroups", "resources", "verbs"}
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                assert (group, resource) not in found, "once is enough"
                found[group, resource] = set(rule["verbs"])
    return found


def test_the_rules_are_what_the_code_uses():
    """A new kind of child fails here until its line is in charts/charonia/rules.yaml."""
    used = {(kind.group, kind.plural): CHILD for kind in kinds()}
    used[INFERENCE_SERVICE.group, INFERENCE_SERVICE.plural] = {"list", "watch"}
    used[INFERENCE_SERVICE.group, f"{INFERENCE_SERVICE.plural}/status"] = {"patch"}
    used[POD.group, POD.plural] = {"list", "watch"}
    used[EVENT.group, EVENT.plural] = {"create", "list"}

    assert allowed() == used


def test_no_secret_can_be_read():
    assert not [resource for _, resource in allowed() if resource in {"secrets", "*", "serviceaccounts"}]
