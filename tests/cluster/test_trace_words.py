"""Comparing traces of calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.cluster.rpc_trace import Allowed, TracedCall, canonical, differences, read_allowed, read_trace

PAGE = """# Differences

## RPC traces

| call | what differs | reason |
|---|---|---|
| `NodeGetVolumeStats` | only mooring | it measures |
| `NodeGetInfo` | only the kubelet | it asks twice |
| `NodePublishVolume` | `volume_context > a > b` | a reason |

## More

| `NodeStageVolume` | sometimes | of another table |
"""


def call(method: str, volume: str = "v", **request: object) -> TracedCall:
    return TracedCall(method=method, request={"volume_id": volume, **request}, code="OK")


def recorded(number: int, method: str, request: Mapping[str, object]) -> str:
    return json.dumps({"number": number, "method": method, "request": request, "code": "OK"})


def test_a_trace_is_read_in_the_order_of_calls_with_names_for_places_and_pods() -> None:
    lines = [recorded(2, "B", {"p": "/r/root/uid-1/x"}), recorded(1, "A", {"p": "/r/root"})]
    trace = read_trace(lines, {"/r/root": "<root>", "uid-1": "<uid of web>"})
    assert [(each.method, each.request["p"]) for each in trace] == [("A", "<root>"), ("B", "<root>/<uid of web>/x")]


def test_capabilities_and_repetitions_do_not_count() -> None:
    stage = call("NodeStageVolume")
    trace = [stage, call("NodeGetCapabilities"), stage, call("NodePublishVolume"), stage]
    assert canonical(trace) == {"v": [stage, call("NodePublishVolume"), stage]}


def test_the_order_of_like_calls_is_chance_and_that_of_others_is_not() -> None:
    one, two = call("NodePublishVolume", target="/1"), call("NodePublishVolume", target="/2")
    assert differences([one, two], [two, one], Allowed()) == []
    stage = call("NodeStageVolume")
    assert differences([stage, one], [one, stage], Allowed()) != []


def test_of_a_call_that_is_repeated_the_last_answer_counts() -> None:
    put_off = TracedCall(method="NodeUnpublishVolume", request={"volume_id": "v"}, code="ABORTED")
    done = call("NodeUnpublishVolume")
    assert canonical([put_off, done]) == {"v": [done]}
    assert canonical([done, put_off]) == {"v": [put_off]}


def test_volumes_do_not_wait_for_each_other() -> None:
    a, b = call("NodeStageVolume", "a"), call("NodePublishVolume", "b")
    assert differences([a, b], [b, a], Allowed()) == []


def test_a_field_that_differs_is_shown_on_both_sides() -> None:
    found = differences([call("NodeStageVolume", fs="ext4")], [call("NodeStageVolume", fs="xfs")], Allowed())
    assert [line[0] for line in found] == ["-", "+", "@", "-", "+"]
    assert "ext4" in found[3]
    assert "xfs" in found[4]


def test_allowed_differences_stand_in_a_table_of_their_own() -> None:
    assert read_allowed(PAGE) == Allowed(
        only_mooring=frozenset(["NodeGetVolumeStats"]),
        only_kubelet=frozenset(["NodeGetInfo"]),
        fields=frozenset([("NodePublishVolume", "volume_context > a > b")]),
    )
    assert read_allowed("# Without a table\n") == Allowed()


def test_a_row_that_cannot_be_read_allows_nothing_and_is_named() -> None:
    with pytest.raises(ValueError, match="NodeStageVolume"):
        read_allowed(PAGE.replace("## More\n\n", ""))


def test_the_table_of_this_repository_can_be_read() -> None:
    read_allowed((Path(__file__).parents[2] / "docs" / "differences.md").read_text())


def test_what_is_allowed_does_not_count() -> None:
    allowed = read_allowed(PAGE)
    kubelet = [call("NodeGetInfo"), call("NodePublishVolume", volume_context={"a": {"b": 1, "c": 2}})]
    mooring = [call("NodePublishVolume", volume_context={"a": {"c": 2}}), call("NodeGetVolumeStats")]
    assert differences(kubelet, mooring, allowed) == []
    assert differences(mooring, kubelet, allowed) != []
