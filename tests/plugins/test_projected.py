"""projected: several sources in one volume."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.plugins.conftest import PluginBench

from mooring.errors import NotYet, Refused
from mooring.kube.objects.volumes import (
    ClusterTrustBundleProjection,
    ConfigMapProjection,
    DownwardAPIProjection,
    DownwardAPIVolumeFile,
    KeyToPath,
    ObjectFieldSelector,
    PodCertificateProjection,
    ProjectedVolumeSource,
    SecretProjection,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
)
from mooring.plugins.interface import ObjectRef
from mooring.world.spec import VolumeSpec


def projected(*sources: VolumeProjection) -> Volume:
    return Volume(name="v", projected=ProjectedVolumeSource(sources=sources))


def config(name: str, *items: KeyToPath, optional: bool = False) -> VolumeProjection:
    return VolumeProjection(config_map=ConfigMapProjection(name=name, items=items, optional=optional))


def secret(name: str, *items: KeyToPath, optional: bool = False) -> VolumeProjection:
    return VolumeProjection(secret=SecretProjection(name=name, items=items, optional=optional))


def field(path: str, name: str) -> VolumeProjection:
    item = DownwardAPIVolumeFile(path=path, field_ref=ObjectFieldSelector(field_path=name))
    return VolumeProjection(downward_api=DownwardAPIProjection(items=(item,)))


def test_all_sources_share_one_directory(bench: PluginBench) -> None:
    bench.config_map("c", a="from c")
    bench.secret("s", b="from s")
    path = bench.set_up(projected(config("c"), secret("s"), field("name", "metadata.name")))
    assert bench.texts(path) == {"a": "from c", "b": "from s", "name": "web"}


def test_of_equal_paths_the_later_source_wins(bench: PluginBench) -> None:
    bench.config_map("c", a="config")
    bench.secret("s", a="secret")
    assert bench.texts(bench.set_up(projected(config("c"), secret("s")))) == {"a": "secret"}
    other = replace(projected(secret("s"), config("c")), name="w")
    assert bench.texts(bench.set_up(other)) == {"a": "config"}


def test_it_lives_in_memory(bench: PluginBench) -> None:
    bench.config_map("c", a="1")
    mount = bench.host.mount_at(bench.set_up(projected(config("c"))))
    assert mount is not None
    assert mount.fs_type == "tmpfs"


def test_all_that_is_missing_is_told_in_one_message_and_waited_for(bench: PluginBench) -> None:
    bench.secret("s", a="hunter2")
    volume = projected(config("absent"), secret("s", KeyToPath(key="gone", path="p")), secret("lost"))
    with pytest.raises(NotYet) as caught:
        bench.set_up(volume)
    assert caught.value.why == (
        "cannot read ConfigMap 'absent': configmap \"absent\" not found in namespace 'shop'; "
        "cannot read Secret 's': references non-existent secret key: gone; "
        "cannot read Secret 'lost': secret \"lost\" not found in namespace 'shop'"
    )
    assert "hunter2" not in str(caught.value)
    assert bench.host.look(bench.path(volume)) is None


def test_something_that_no_event_can_mend_makes_it_a_refusal(bench: PluginBench) -> None:
    with pytest.raises(Refused, match=r'configmap "absent" not found.*unsupported fieldPath: metadata\.whoops'):
        bench.set_up(projected(config("absent"), field("p", "metadata.whoops")))


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (
            VolumeProjection(service_account_token=ServiceAccountTokenProjection(path="token")),
            "cannot project a service account token ('token'): nobody issues tokens here",
        ),
        (
            VolumeProjection(cluster_trust_bundle=ClusterTrustBundleProjection(path="ca.pem")),
            "cannot project a cluster trust bundle ('ca.pem'): it names neither a bundle nor a signer",
        ),
        (
            VolumeProjection(pod_certificate=PodCertificateProjection(signer_name="example.com/x", key_type="ED25519")),
            "cannot project a pod certificate ('example.com/x'): "
            "that needs a Kubernetes API server, where signers answer certificate requests",
        ),
        (VolumeProjection(), "cannot project a source: it names no source that mooring knows"),
    ],
    ids=["token", "trust bundle", "certificate", "nothing"],
)
def test_what_is_not_served_is_refused_in_one_clear_sentence(
    bench: PluginBench, source: VolumeProjection, sentence: str
) -> None:
    with pytest.raises(Refused) as caught:
        bench.set_up(projected(source))
    assert caught.value.why == sentence


def test_optional_sources_may_be_missing(bench: PluginBench) -> None:
    bench.config_map("c", a="1")
    gone = KeyToPath(key="gone", path="p")
    volume = projected(config("absent", optional=True), secret("lost", optional=True), config("c", gone, optional=True))
    assert bench.texts(bench.set_up(volume)) == {}


def test_a_refresh_with_a_missing_source_keeps_the_old_files(bench: PluginBench) -> None:
    bench.config_map("c", a="1")
    bench.secret("s", b="2")
    volume = projected(config("c"), secret("s"))
    path = bench.set_up(volume)
    bench.objects.remove(ObjectRef("Secret", "shop", "s"))
    with pytest.raises(NotYet):
        bench.set_up(volume, refresh=True)
    assert bench.texts(path) == {"a": "1", "b": "2"}


def test_it_refers_to_every_object_it_is_made_of(bench: PluginBench) -> None:
    volume = projected(
        config("c"),
        secret("s"),
        field("name", "metadata.name"),
        VolumeProjection(service_account_token=ServiceAccountTokenProjection(path="token")),
        VolumeProjection(cluster_trust_bundle=ClusterTrustBundleProjection(path="a.pem", name="ca")),
        VolumeProjection(cluster_trust_bundle=ClusterTrustBundleProjection(path="b.pem", signer_name="example.com/x")),
    )
    spec = VolumeSpec(volume=volume)
    assert bench.plugins.find_by_spec(spec).references(spec, bench.pod(volume)) == (
        ObjectRef("ConfigMap", "shop", "c"),
        ObjectRef("Secret", "shop", "s"),
        ObjectRef("ServiceAccount", "shop", "default"),
        ObjectRef("ClusterTrustBundle", "", "ca"),
        ObjectRef("ClusterTrustBundle", "", ""),
    )


def test_a_ready_mark_from_before_a_reboot_does_not_hinder_the_set_up(bench: PluginBench) -> None:
    bench.config_map("c", a="1")
    volume = projected(config("c"))
    path = bench.set_up(volume)
    bench.host.reboot()
    bench.set_up(volume)
    assert bench.texts(path) == {"a": "1"}
