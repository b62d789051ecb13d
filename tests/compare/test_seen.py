"""What was seen of one side, and the facts that are compared."""

from __future__ import annotations

from bench.compare.corpus import Manifest
from bench.compare.seen import Entry, Fact, Refusal, Seen, SeenPod, Stage, facts_of, field_name

UID = "11111111-0000-4000-8000-000000000001"
MANIFEST = Manifest(area="area", name="one", says="It is one.", text="")
UIDS = {UID: "area-one/app"}


def facts(*entries: Entry, pods: tuple[SeenPod, ...] = ()) -> dict[tuple[str, str, str], str]:
    seen = Seen(stage=Stage.FIRST, entries=entries, pods=pods)
    return {
        (fact.manifest, fact.subject, fact.field): value for fact, value in facts_of(seen, [MANIFEST], UIDS).items()
    }


def test_what_lies_in_a_pods_directory_belongs_to_its_manifest() -> None:
    entry = {"path": f"node/pods/{UID}/volumes", "mode": "0750"}
    assert facts(entry) == {("area/one", "node/pods/<app>/volumes", "mode"): "0750"}


def test_elsewhere_a_pod_is_named_in_full() -> None:
    entry = {"path": f"node/plugins/p/{UID}", "type": "file"}
    assert facts(entry) == {("-", "node/plugins/p/<area-one/app>", "type"): "file"}


def test_files_of_either_side_and_of_the_drivers_machinery_do_not_count() -> None:
    own = ("node", "node/mooring.lock", "node/store/objects.db", "node/plugins_registry")
    machinery = ("drivers", "drivers/flex/a", "drivers/csi/plain.example.sock", "drivers/images/disk")
    assert facts(*({"path": path, "type": "file"} for path in own + machinery)) == {}
    assert facts({"path": "drivers/csi/plain.example/volume", "type": "directory"}) != {}


def test_two_data_directories_are_another_thing_than_one() -> None:
    entry = {"path": f"node/pods/{UID}/volumes/..<data>", "type": "directory"}
    assert list(facts(entry, entry).values()) == ["directory and directory"]


def test_a_pod_that_is_not_ready_has_its_causes_each_once_and_in_order() -> None:
    pod = SeenPod(namespace="area-one", name="app", uid=UID, ready=False, causes=["b", "a", "b"])
    assert facts(pods=(pod,)) == {("area/one", "pod app", "ready"): "no", ("area/one", "pod app", "cause"): "a; b"}


def test_a_volume_has_its_plugin_and_its_path() -> None:
    path = f"pods/{UID}/volumes/plugin/data"
    pod = SeenPod(namespace="area-one", name="app", uid=UID, ready=True, volumes={"data": ("plugin", path)})
    assert facts(pods=(pod,)) == {
        ("area/one", "pod app", "ready"): "yes",
        ("area/one", "volume app/data", "plugin"): "plugin",
        ("area/one", "volume app/data", "path"): "pods/<app>/volumes/plugin/data",
    }


def test_a_refused_object_is_told_with_its_fields() -> None:
    refused = Refusal(namespace="area-one", kind="Pod", name="app", fields=frozenset({"spec.b", "spec.a"}))
    found = facts_of(Seen(stage=Stage.FIRST, entries=(), refusals=(refused,)), [MANIFEST], {})
    assert found == {Fact(Stage.FIRST, "area/one", "Pod app", "refused"): "spec.a, spec.b"}


def test_keys_of_data_are_written_in_one_way() -> None:
    assert field_name('data["tls.key"]') == "data[tls.key]"
    assert field_name("binaryData.colour") == "binaryData[colour]"
    assert field_name("spec.volumes[0].name") == "spec.volumes[0].name"
