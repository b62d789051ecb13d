"""projected: cluster trust bundles (plugins.md 13.2, T11 and T12)."""

from __future__ import annotations

import pytest
from tests.plugins.conftest import PluginBench

from mooring.errors import NotYet, Refused
from mooring.kube.objects.certificates import ClusterTrustBundle, ClusterTrustBundleSpec
from mooring.kube.objects.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from mooring.kube.objects.volumes import (
    ClusterTrustBundleProjection,
    ProjectedVolumeSource,
    Volume,
    VolumeProjection,
)
from mooring.kube.pem import certificates_in, to_pem
from mooring.plugins.interface import ObjectRef

SIGNER = "example.com/x"
ALL = LabelSelector()
LIVE = LabelSelector(match_labels={"env": "live"})


def certificate(text: str) -> bytes:
    """Bytes that look like a certificate from outside: a DER sequence."""
    return bytes((0x30, len(text))) + text.encode()


ONE, TWO, THREE = (certificate(name) for name in ("one", "two", "three"))


def bundle(
    name: str, *certificates: bytes, signer: str = "", labels: dict[str, str] | None = None
) -> ClusterTrustBundle:
    return ClusterTrustBundle(
        metadata=ObjectMeta(name=name, labels=labels or {}),
        spec=ClusterTrustBundleSpec(signer_name=signer, trust_bundle=to_pem(certificates)),
    )


def by_name(name: str, *, optional: bool = False) -> Volume:
    return projected(ClusterTrustBundleProjection(path="ca.pem", name=name, optional=optional))


def by_signer(selector: LabelSelector | None, *, optional: bool = False) -> Volume:
    source = ClusterTrustBundleProjection(path="ca.pem", signer_name=SIGNER, label_selector=selector, optional=optional)
    return projected(source)


def projected(source: ClusterTrustBundleProjection) -> Volume:
    sources = (VolumeProjection(cluster_trust_bundle=source),)
    return Volume(name="v", projected=ProjectedVolumeSource(sources=sources))


def content(bench: PluginBench, path: str) -> str:
    return bench.texts(path)["ca.pem"]


def test_a_bundle_by_name_is_a_file(bench: PluginBench) -> None:
    bench.put(bundle("ca", ONE))
    assert content(bench, bench.set_up(by_name("ca"))) == to_pem([ONE])


def test_a_missing_bundle_is_waited_for_and_an_optional_one_is_empty(bench: PluginBench) -> None:
    """T11."""
    with pytest.raises(NotYet, match='clustertrustbundle "ca" not found'):
        bench.set_up(by_name("ca"))
    assert content(bench, bench.set_up(by_name("ca", optional=True))) == ""


def test_a_changed_bundle_shows_at_the_next_look(bench: PluginBench) -> None:
    """T11."""
    bench.put(bundle("ca", ONE))
    path = bench.set_up(by_name("ca"))
    bench.put(bundle("ca", TWO))
    bench.set_up(by_name("ca"), refresh=True)
    assert content(bench, path) == to_pem([TWO])


def test_all_bundles_of_the_signer_that_the_selector_admits_are_joined(bench: PluginBench) -> None:
    """T12."""
    bench.put(bundle("a", ONE, signer=SIGNER, labels={"env": "live"}))
    bench.put(bundle("b", TWO, signer=SIGNER, labels={"env": "test"}))
    bench.put(bundle("c", THREE, signer="example.com/y", labels={"env": "live"}))
    assert content(bench, bench.set_up(by_signer(LIVE))) == to_pem([ONE])
    bench.set_up(by_signer(ALL), refresh=True)
    assert set(certificates_in(content(bench, bench.path(by_signer(ALL))))) == {ONE, TWO}


@pytest.mark.parametrize(
    ("requirement", "found"),
    [
        (LabelSelectorRequirement(key="env", operator="In", values=("live",)), {ONE}),
        (LabelSelectorRequirement(key="env", operator="NotIn", values=("live",)), {TWO}),
        (LabelSelectorRequirement(key="env", operator="Exists"), {ONE}),
        (LabelSelectorRequirement(key="env", operator="DoesNotExist"), {TWO}),
    ],
    ids=lambda value: value.operator if isinstance(value, LabelSelectorRequirement) else "",
)
def test_expressions_select(bench: PluginBench, requirement: LabelSelectorRequirement, found: set[bytes]) -> None:
    bench.put(bundle("a", ONE, signer=SIGNER, labels={"env": "live"}))
    bench.put(bundle("b", TWO, signer=SIGNER))
    path = bench.set_up(by_signer(LabelSelector(match_expressions=(requirement,))))
    assert set(certificates_in(content(bench, path))) == found


def test_an_unknown_operator_is_refused(bench: PluginBench) -> None:
    requirement = LabelSelectorRequirement(key="env", operator="Like", values=("live",))
    with pytest.raises(Refused, match="the operator 'Like' is not known"):
        bench.set_up(by_signer(LabelSelector(match_expressions=(requirement,))))


def test_without_a_selector_nothing_is_selected(bench: PluginBench) -> None:
    """T12."""
    bench.put(bundle("a", ONE, signer=SIGNER))
    with pytest.raises(NotYet, match=r"without a labelSelector no bundle is selected"):
        bench.set_up(by_signer(None))
    assert content(bench, bench.set_up(by_signer(None, optional=True))) == ""


def test_no_match_is_waited_for_or_empty_when_optional(bench: PluginBench) -> None:
    """T12."""
    bench.put(bundle("a", ONE, signer=SIGNER))
    with pytest.raises(NotYet, match="the labelSelector selects none"):
        bench.set_up(by_signer(LIVE))
    assert content(bench, bench.set_up(by_signer(LIVE, optional=True))) == ""


def test_a_certificate_is_in_the_file_once(bench: PluginBench) -> None:
    bench.put(bundle("a", ONE, TWO, signer=SIGNER))
    bench.put(bundle("b", TWO, THREE, signer=SIGNER))
    found = certificates_in(content(bench, bench.set_up(by_signer(ALL))))
    assert sorted(found) == sorted([ONE, TWO, THREE])


def test_the_order_follows_from_the_certificates_alone(bench: PluginBench) -> None:
    many = [certificate(f"{number}") for number in range(20)]
    bench.put(bundle("a", *many, signer=SIGNER))
    path = bench.set_up(by_signer(ALL))
    first, before = content(bench, path), bench.data_directory(path)
    bench.objects.remove(ObjectRef("ClusterTrustBundle", "", "a"))
    bench.put(bundle("b", *many[10:], signer=SIGNER))
    bench.put(bundle("a", *reversed(many[:12]), signer=SIGNER))
    bench.set_up(by_signer(ALL), refresh=True)
    assert content(bench, path) == first
    assert bench.data_directory(path) == before
    assert certificates_in(first) not in (many, sorted(many))


def test_a_bundle_that_is_broken_is_refused_without_its_text(bench: PluginBench) -> None:
    broken = "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n"
    bench.put(ClusterTrustBundle(metadata=ObjectMeta(name="ca"), spec=ClusterTrustBundleSpec(trust_bundle=broken)))
    with pytest.raises(Refused, match="cannot read ClusterTrustBundle 'ca': PEM block 1 is not base64"):
        bench.set_up(by_name("ca"))


def test_the_file_is_for_the_pods_user_only_as_soon_as_there_is_one(bench: PluginBench) -> None:
    bench.put(bundle("ca", ONE))
    path = bench.set_up(by_name("ca"), fs_user=1000)
    file = f"{path}/{bench.data_directory(path)}/ca.pem"
    assert (bench.mode(file), bench.owner(file)) == (0o600, (1000, 0))
