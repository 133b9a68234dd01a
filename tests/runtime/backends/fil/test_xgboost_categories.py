import json
import logging

import pytest

from charonia_runtime.backends.fil.xgboost_categories import without_categories

TEXTS = {"offsets": [0, 4, 7], "values": list(b"bluer\xc3\xa9")}
NUMBERS = {"values": [10, 20]}


def a_document(table, *, dart=False):
    trees = {"cats": {"enc": table, "feature_segments": [0, 2], "sorted_idx": [0, 1]}, "trees": [1]}
    booster = {"name": "dart", "gbtree": {"model": trees}} if dart else {"name": "gbtree", "model": trees}
    return {"learner": {"feature_names": ["colour"], "gradient_booster": booster}}


@pytest.mark.parametrize("dart", [False, True])
def test_the_table_is_taken_out_and_its_codes_are_logged(tmp_path, caplog, dart):
    path = tmp_path / "xgboost.json"
    path.write_text(json.dumps(a_document([TEXTS, {"offsets": [], "values": []}, NUMBERS], dart=dart)))

    with caplog.at_level(logging.INFO):
        document = json.loads(without_categories(path, "m"))

    left = a_document([], dart=dart)
    booster = left["learner"]["gradient_booster"]
    (booster["gbtree"] if dart else booster)["model"]["cats"] = {"enc": [], "feature_segments": [], "sorted_idx": []}
    assert document == left
    assert caplog.messages == [
        "model 'm': feature 'colour' takes codes of categories: 0=blue, 1=ré",
        "model 'm': feature '2' takes codes of categories: 0=10, 1=20",
    ]


@pytest.mark.parametrize("content", [b"{L\x00\x01", b"[]", b"{}", json.dumps(a_document([])).encode()])
def test_what_has_no_table(tmp_path, content):
    path = tmp_path / "xgboost.json"
    path.write_bytes(content)

    assert without_categories(path, "m") is None
