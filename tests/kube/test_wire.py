"""What an API server writes, and what becomes of an object in it that nobody can make sense of."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.kube.api import EventType, InternalError
from mooring.kube.objects.kinds import CONFIG_MAP, CSI_NODE, SECRET
from mooring.kube.wire import read_event, read_list


def config_map(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop", "resourceVersion": "7"}, **more}


def listed(*items: Any) -> bytes:
    return json.dumps({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": items}).encode()


def line(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


def test_an_object_that_cannot_be_read_costs_itself_only() -> None:
    body = listed(config_map("a"), config_map("b", data=["no", "map"]), config_map("c", data={"key": "value"}))
    found = read_list(CONFIG_MAP, body, "cannot list")
    assert [each.key for each in found.items] == ["shop/a", "shop/c"]
    assert (found.resource_version, found.continue_token) == ("9", "more")
    (bad,) = found.unreadable
    assert bad.key == "shop/b"
    assert bad.error.what == "cannot read ConfigMap 'shop/b'"
    assert "$.data" in bad.error.why


def test_an_object_without_a_readable_name_costs_itself_only_too() -> None:
    found = read_list(CONFIG_MAP, listed(config_map("a"), {"metadata": {"name": 7}}, 7), "cannot list")
    assert [each.key for each in found.items] == ["shop/a"]
    assert [each.key for each in found.unreadable] == ["", ""]


def test_what_a_secret_holds_does_not_show_where_it_cannot_be_read() -> None:
    secrets = [
        {"metadata": {"name": "s"}, "data": {"hidden": "hidden!"}},
        {"metadata": {"name": "s"}, "data": {"hidden": {"hidden": 1}}},
        {"metadata": {"name": "s"}, "data": "hidden", "type": ["hidden"]},
    ]
    found = read_list(SECRET, listed(*secrets), "cannot list")
    assert len(found.unreadable) == 3
    assert not any("hidden" in str(each.error) for each in found.unreadable)


def test_null_is_as_good_as_nothing() -> None:
    nodes = [{"metadata": {"name": "n"}, "spec": {"drivers": None}}]
    assert read_list(CSI_NODE, listed(*nodes), "cannot list").items[0].spec.drivers == ()
    assert read_list(CSI_NODE, b'{"metadata": {"resourceVersion": "1"}, "items": null}', "cannot list").items == []


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b'{"items": 7}', b'{"metadata": 7}'])
def test_a_list_that_is_none_is_an_error(body: bytes) -> None:
    with pytest.raises(InternalError, match=r"cannot list: .* makes no sense"):
        read_list(CONFIG_MAP, body, "cannot list")


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED"])
def test_the_event_of_an_object_that_cannot_be_read_says_which_one_it_is(kind: str) -> None:
    event = read_event(CONFIG_MAP, line(kind, config_map("b", data=7)), "cannot watch")
    assert event.type is EventType(kind)
    assert event.object is None
    assert event.unreadable is not None
    assert event.unreadable.key == "shop/b"


def test_the_end_of_an_object_is_not_missed_because_it_cannot_be_read() -> None:
    with pytest.raises(InternalError, match="cannot watch"):
        read_event(CONFIG_MAP, line("DELETED", config_map("b", data=7)), "cannot watch")
