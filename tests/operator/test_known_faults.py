"""
The ways in which operators that are built on kopf go wrong, and the tests that such a fault would break.

Of each at least one test is quick and in the check, or slow and in the third of the slow tests that is run with it.
"""

import ast
import tomllib
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
FAULTS = {
    "K1: a watch ends for good, and the process lives on blind": [
        "test_handlers.py::test_what_ends_by_itself_ends_the_process",
        "test_api_faults.py::test_a_watch_that_breaks_for_good_ends_the_process",
    ],
    "K2: refusals that last longer than the tries end a watch": [
        "test_handlers.py::test_kopf_gives_up_nowhere_and_waits_for_nothing_endlessly",
        "test_api_faults.py::test_refusals_that_last",
    ],
    "K3: deletions during a gap are lost": [
        "test_store.py::test_a_list_finds_what_a_watch_lost",
        "test_api_faults.py::test_what_is_deleted_while_nobody_watches_stays_deleted",
    ],
    "K4: a connection falls silent": [
        "test_handlers.py::test_kopf_gives_up_nowhere_and_waits_for_nothing_endlessly",
        "test_cluster.py::test_a_server_that_never_answers",
        "test_models.py::test_a_pod_that_never_answers",
        "test_api_faults.py::test_a_connection_that_falls_silent",
    ],
    "K5: an annotation with the whole spec is too large": [
        "test_handlers.py::test_no_handler_that_writes",
        "test_operator_company.py::test_a_large_service",
    ],
    "K6: a replaced or restored object is taken for a new one": [
        "test_reconcile.py::test_children_of_a_restored_service_are_taken_over",
        "test_operator_process.py::test_kubectl_replace",
    ],
    "K7: finalizers hold objects and namespaces": [
        "test_operator_process.py::test_it_marks_the_service_with_nothing",
        "test_operator_company.py::test_a_namespace_goes_without_an_operator",
    ],
    "K8: what fails is tried, and told, without pause": [
        "test_queue.py::test_failures_are_tried_later_and_later",
        "test_workers.py::test_ten_writes_at_once_and_two_a_minute_from_then_on",
        "test_reconcile.py::test_a_lasting_refusal_costs_one_request_a_minute",
    ],
    "K9: a start writes to every object": [
        "test_operator_restarts.py::test_a_second_run_writes_nothing",
        "test_many_services.py::test_many_services",
    ],
    "K10: a call that blocks holds everything up": ["test_handlers.py::test_nothing_that_blocks_runs_on_the_loop"],
    "K11: what raises in a handler is not tried again": [
        "test_reconcile.py::test_passing_refusals_are_tried_again",
        "test_workers.py::test_a_pass_that_fails_is_tried_again",
        "test_api_faults.py::test_every_kind_of_request_fails_once",
    ],
    "K12: a background task ends, and nobody hears of it": [
        "test_workers.py::test_a_thread_that_ended_is_told",
        "test_handlers.py::test_what_ends_by_itself_ends_the_process",
    ],
    "K13: handlers use up the pool of threads": ["test_handlers.py::test_nothing_that_blocks_runs_on_the_loop"],
    "K14: several operators stop each other": [
        "test_handlers.py::test_kopf_keeps_to_itself",
        "test_leadership.py::test_a_standby_takes_over",
        "test_operator_company.py::test_two_operators_do_not_quarrel",
    ],
    "K15: a former leader wakes up and writes": [
        "test_leadership.py::test_a_leader_that_is_frozen_does_not_write_when_it_wakes",
        "test_cluster.py::test_an_operator_that_does_not_lead_reads_and_writes_nothing",
        "test_leadership.py::test_a_leader_that_wakes_stands_by",
    ],
    "K16: the operator does not see its own writes yet": [
        "test_store.py::test_old_news_is_no_news",
        "test_drift.py::test_an_older_answer_than_what_a_watch_told",
        "test_api_faults.py::test_late_events",
    ],
    "K17: the schema drops fields of the status, which are written again and again": [
        "test_skew.py::test_what_the_definition_can_hold",
        "test_skew.py::test_an_older_definition_in_a_cluster",
    ],
    "K18: a missing right shows as silence": [
        "test_rbac.py::test_the_rules_are_what_the_code_uses",
        "test_operator_rights.py::test_a_right_that_is_missing_and_comes_back",
    ],
    "K19: foreign objects are listed, and lists come in one piece": [
        "test_handlers.py::test_children_are_selected_by_the_server",
        "test_cluster.py::test_a_list_is_read_page_by_page",
    ],
    "K20: edits that come fast": [
        "test_queue.py::test_what_is_added_twice_is_done_once",
        "test_api_faults.py::test_edits_that_come_fast",
    ],
    "K21: a flood of Events": [
        "test_handlers.py::test_kopf_keeps_to_itself",
        "test_reconcile.py::test_a_service_that_flaps_fills_no_store_with_events",
    ],
    "K22: an install for one namespace needs rights of the cluster": [
        "test_handlers.py::test_kopf_keeps_to_itself",
        "test_operator_rights.py::test_rights_in_one_namespace_are_enough",
    ],
    "K23: the definition comes late, goes and comes back": [
        "test_operator_company.py::test_a_definition_that_comes_late_goes_and_comes_back",
    ],
    "K24: an exit hangs": ["test_api_faults.py::test_it_stops_while_the_api_server_is_silent"],
    "K25: handlers that scale race with each other": [
        "test_queue.py::test_a_key_is_never_worked_on_twice_at_a_time",
        "test_operator_process.py::test_the_autoscaler_scales_through_the_scale_subresource",
    ],
    "K26: the token expires": [
        "test_cluster.py::test_the_token_of_a_service_account_is_read_for_each_request",
        "test_operator_rights.py::test_a_token_that_rotates",
    ],
    "K27: an upgrade of the operator forgets its progress": [
        "test_reconcile.py::test_an_upgrade_changes_no_template",
        "test_operator_restarts.py::test_it_finishes_what_a_killed_one_began",
    ],
    "K28: secrets in logs": ["test_operator_company.py::test_what_people_put_into_a_service_is_in_no_log"],
}


def test_all_of_them_are_here():
    assert [fault.partition(":")[0] for fault in FAULTS] == [f"K{number}" for number in range(1, 29)]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_known_fault_has_a_test(fault):
    for test in FAULTS[fault]:
        file, _, name = test.partition("::")
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        names = {node.name for node in ast.parse((FOLDER / file).read_text()).body if isinstance(node, functions)}
        assert name in names, test


def test_no_version_of_python_whose_connections_freeze():
    """Before 3.11 kopf cannot end a watch that has fallen silent."""
    project = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text())["project"]

    assert project["requires-python"] == ">=3.11"
