"""Label and field selectors."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube.api import Invalid, ListOptions
from mooring.kube.objects import Event, ObjectMeta, ObjectReference, Pod, PodSpec
from mooring.kube.objects.kinds import CONFIG_MAP, EVENT, POD
from mooring.kube.objects.pod import PodStatus
from mooring.kube.selectors import parse_field_selector, parse_label_selector, select

LABELS = {"a": "b", "e": "x", "g": "", "example.com/tier": "front_end.1"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "a=b",
        "a==b",
        " a = b ",
        "c!=d",
        "a!=d",
        "e in (x,y)",
        "e in ( x , y )",
        "e in(x)",
        "f notin (z)",
        "e notin (z)",
        "g",
        "g=",
        "g in (,x)",
        "!h",
        "! h",
        "example.com/tier=front_end.1",
        "a=b,c!=d,e in (x,y),f notin (z),g,!h",
    ],
)
def test_a_label_selector_that_matches(text: str) -> None:
    assert parse_label_selector(text).matches(LABELS)


@pytest.mark.parametrize("text", ["a=c", "a!=b", "e in (y,z)", "e notin (x)", "h", "!a", "h=", "a=b,h", "in in (x)"])
def test_a_label_selector_that_does_not_match(text: str) -> None:
    assert not parse_label_selector(text).matches(LABELS)


@pytest.mark.parametrize(
    "text",
    [
        "a=b,",
        ",a",
        "a=b=c",
        "=b",
        "a in x",
        "a in (x",
        "a in x)",
        "a within (x)",
        "a b",
        "!",
        "!a=b",
        "-a=b",
        "a=-b",
        "a/b/c=d",
        "A.b/c=d",
        f"a={'x' * 64}",
    ],
)
def test_a_malformed_label_selector_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="cannot use label selector"):
        parse_label_selector(text)


@given(st.text(max_size=30))
def test_any_text_is_either_a_label_selector_or_invalid(text: str) -> None:
    with contextlib.suppress(Invalid):
        parse_label_selector(text).matches(LABELS)


def pod(name: str = "web", namespace: str = "ns", node: str = "n1", phase: str = "Running") -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase=phase),
    )


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("metadata.name=web", True),
        ("metadata.name==web", True),
        ("metadata.name!=web", False),
        ("metadata.namespace=ns,spec.nodeName=n1", True),
        ("metadata.namespace=ns,spec.nodeName=n2", False),
        ("spec.nodeName!=", True),
        ("status.phase!=Running", False),
        ("metadata.name=web,", True),
        (r"metadata.name=we\,b", False),
    ],
)
def test_a_field_selector_compares_fields(text: str, matches: bool) -> None:
    requirements = parse_field_selector(POD, text)
    assert all(requirement.matches(pod()) for requirement in requirements) is matches


def test_escapes_in_a_field_selector_stand_for_the_character_itself() -> None:
    (requirement,) = parse_field_selector(POD, r"metadata.name=a\,b\=c\\d")
    assert requirement.matches(pod(name="a,b=c\\d"))


def test_an_event_is_selected_by_the_object_it_is_about() -> None:
    event = Event(involved_object=ObjectReference(kind="Pod", uid="u1"))
    requirements = parse_field_selector(EVENT, "involvedObject.kind=Pod,involvedObject.uid=u1")
    assert all(requirement.matches(event) for requirement in requirements)


@pytest.mark.parametrize("text", ["metadata.name", "metadata.name>a", "=a", "metadata.name=a\\", "metadata.name=a=b"])
def test_a_malformed_field_selector_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is not a comparison"):
        parse_field_selector(POD, text)


def test_a_field_that_a_kind_does_not_have_is_refused_with_those_it_has() -> None:
    with pytest.raises(Invalid, match=r"ConfigMap cannot be selected.*metadata.name, metadata.namespace"):
        parse_field_selector(CONFIG_MAP, "spec.nodeName=n1")


def test_options_select_by_namespace_labels_and_fields_together() -> None:
    options = ListOptions(namespace="ns", field_selector="spec.nodeName=n1", label_selector="!app")
    selection = select(POD, options)
    assert selection.matches(pod())
    assert not selection.matches(pod(namespace="other"))
    assert not selection.matches(pod(node="n2"))
    assert not selection.everything
    assert select(POD, ListOptions()).everything
