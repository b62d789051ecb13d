"""configMap and secret volumes: which files there are, and what happens when something is missing."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from tests.plugins.conftest import PluginBench

from mooring.errors import NotYet, Refused
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import ConfigMap
from mooring.kube.objects.volumes import ConfigMapVolumeSource, KeyToPath, SecretVolumeSource, Volume
from mooring.plugins.interface import ObjectRef
from mooring.testing.memory_storage import Hook


def items(**paths: str) -> tuple[KeyToPath, ...]:
    return tuple(KeyToPath(key=key, path=path) for key, path in paths.items())


def config(*chosen: KeyToPath, name: str = "c", optional: bool = False, mode: int | None = None) -> Volume:
    source = ConfigMapVolumeSource(name=name, items=chosen, optional=optional, default_mode=mode)
    return Volume(name="v", config_map=source)


def secret(*chosen: KeyToPath, name: str = "s", optional: bool = False, mode: int | None = None) -> Volume:
    source = SecretVolumeSource(secret_name=name, items=chosen, optional=optional, default_mode=mode)
    return Volume(name="v", secret=source)


# -- what is written -----------------------------------------------------------------------------------------------
def test_a_config_map_without_items_is_one_file_per_key_of_text_and_binary_data(bench: PluginBench) -> None:
    bench.put(
        ConfigMap(metadata=ObjectMeta(name="c", namespace="shop"), data={"a": "1"}, binary_data={"b": b"\xff\x00"})
    )
    path = bench.set_up(config(mode=0o600))
    assert bench.host.read_file(f"{path}/a") == b"1"
    assert bench.host.read_file(f"{path}/b") == b"\xff\x00"
    data = f"{path}/{bench.data_directory(path)}"
    assert [bench.mode(f"{data}/{key}") for key in "ab"] == [0o600, 0o600]


def test_of_equal_keys_the_binary_one_wins(bench: PluginBench) -> None:
    bench.put(ConfigMap(metadata=ObjectMeta(name="c", namespace="shop"), data={"k": "text"}, binary_data={"k": b"bin"}))
    assert bench.texts(bench.set_up(config())) == {"k": "bin"}


def test_items_choose_keys_and_may_put_them_into_sub_directories(bench: PluginBench) -> None:
    bench.config_map("c", one="1", two="2")
    path = bench.set_up(config(*items(one="path/1/2/3/foo.txt")))
    assert bench.host.names_in(path) == ["..2026_01_01_00_00_00.0000000001", "..data", "path"]
    assert bench.host.read_file(f"{path}/path/1/2/3/foo.txt") == b"1"


def test_the_mode_of_an_item_wins_over_the_default_mode(bench: PluginBench) -> None:
    bench.secret("s", a="1", b="2", c="3")
    chosen = (
        KeyToPath(key="a", path="a", mode=0o400),
        KeyToPath(key="b", path="b", mode=0o440),
        KeyToPath(key="c", path="c"),
    )
    path = bench.set_up(secret(*chosen, mode=0o644))
    data = f"{path}/{bench.data_directory(path)}"
    assert [bench.mode(f"{data}/{key}") for key in "abc"] == [0o400, 0o440, 0o644]


def test_a_file_belongs_to_the_default_user_or_to_the_user_of_its_item(bench: PluginBench) -> None:
    bench.config_map("c", a="1", b="2")
    chosen = (KeyToPath(key="a", path="a"), KeyToPath(key="b", path="b", user=2002))
    source = ConfigMapVolumeSource(name="c", items=chosen, default_user=1001)
    path = bench.set_up(Volume(name="v", config_map=source))
    data = f"{path}/{bench.data_directory(path)}"
    assert (bench.owner(f"{data}/a"), bench.owner(f"{data}/b")) == ((1001, 0), (2002, 0))
    assert (bench.owner(f"{path}/a"), bench.owner(f"{path}/b")) == ((1001, 0), (2002, 0))


def test_one_key_may_become_two_files_and_of_two_items_with_one_path_the_last_wins(bench: PluginBench) -> None:
    bench.config_map("c", a="1", b="2")
    chosen = (KeyToPath(key="a", path="x"), KeyToPath(key="a", path="y"), KeyToPath(key="b", path="y"))
    assert bench.texts(bench.set_up(config(*chosen))) == {"x": "1", "y": "2"}


def test_a_key_that_would_leave_the_volume_is_refused_and_nothing_stays(bench: PluginBench) -> None:
    for bad in ("foo/../bar", "/etc/passwd", "..data"):
        bench.put(ConfigMap(metadata=ObjectMeta(name="c", namespace="shop"), data={"good": "1", bad: "2"}))
        with pytest.raises(Refused, match="cannot write a file at"):
            bench.set_up(config())
        assert bench.host.look(bench.path(config())) is None


def test_doubled_slashes_in_a_path_are_one(bench: PluginBench) -> None:
    bench.config_map("c", a="1")
    assert bench.host.read_file(f"{bench.set_up(config(*items(a='foo//bar')))}/foo/bar") == b"1"


# -- what is missing -----------------------------------------------------------------------------------------------
def test_a_missing_config_map_is_waited_for_in_the_kubelets_words(bench: PluginBench) -> None:
    with pytest.raises(NotYet, match='configmap "c" not found'):
        bench.set_up(config())
    assert bench.host.look(bench.path(config())) is None


def test_a_missing_secret_is_waited_for_in_the_kubelets_words(bench: PluginBench) -> None:
    with pytest.raises(NotYet, match='secret "s" not found'):
        bench.set_up(secret())
    assert bench.host.look(bench.path(secret())) is None


@pytest.mark.parametrize("volume", [config(optional=True), secret(optional=True)], ids=["configMap", "secret"])
def test_a_missing_optional_object_is_an_empty_volume(bench: PluginBench, volume: Volume) -> None:
    assert bench.texts(bench.set_up(volume)) == {}


def test_an_object_of_another_namespace_is_named_in_the_reason(bench: PluginBench) -> None:
    bench.config_map("c", namespace="bakery", a="1")
    bench.config_map("c", namespace="attic", a="1")
    with pytest.raises(NotYet) as caught:
        bench.set_up(config())
    assert caught.value.why == "configmap \"c\" not found in namespace 'shop', only in 'attic', 'bakery'"
    assert "own namespace" in caught.value.next_step


def test_a_missing_key_of_a_config_map_is_named_with_the_keys_there_are(bench: PluginBench) -> None:
    bench.config_map("c", here="1", there="2")
    with pytest.raises(NotYet) as caught:
        bench.set_up(config(*items(absent="p")))
    assert caught.value.why == "configmap references non-existent config key: absent"
    assert caught.value.next_step == "Its keys are: here, there"


def test_a_missing_key_of_a_secret_is_named_without_any_value(bench: PluginBench) -> None:
    bench.secret("s", here="hunter2")
    with pytest.raises(NotYet) as caught:
        bench.set_up(secret(*items(absent="p")))
    assert caught.value.why == "references non-existent secret key: absent"
    assert "hunter2" not in f"{caught.value} {caught.value.next_step}"


@pytest.mark.parametrize("make", [config, secret], ids=["configMap", "secret"])
def test_a_missing_key_of_an_optional_source_is_passed_over(bench: PluginBench, make: Callable[..., Volume]) -> None:
    bench.config_map("c", a="1")
    bench.secret("s", a="1")
    volume = make(*items(a="a", absent="b"), optional=True)
    assert bench.texts(bench.set_up(volume)) == {"a": "1"}


def test_a_missing_key_with_a_group_leaves_no_volume_and_teardown_still_works(bench: PluginBench) -> None:
    bench.secret("s", a="1")
    volume = secret(*items(absent="p"))
    with pytest.raises(NotYet):
        bench.set_up(volume, fs_group=2000)
    assert bench.host.look(bench.path(volume)) is None
    bench.tear_down(volume)


# -- refresh -------------------------------------------------------------------------------------------------------
def test_a_refresh_replaces_all_files_at_once(bench: PluginBench) -> None:
    bench.config_map("c", a="1", b="1")
    path = bench.set_up(config())
    before = bench.data_directory(path)
    bench.config_map("c", a="2", z="2")
    bench.set_up(config(), refresh=True)
    assert bench.texts(path) == {"a": "2", "z": "2"}
    assert bench.data_directory(path) != before


def test_a_refresh_without_a_change_writes_nothing(bench: PluginBench) -> None:
    bench.secret("s", a="1")
    path = bench.set_up(secret(), fs_group=2000)
    before = bench.host.snapshot(path)
    calls: list[str] = []
    bench.host.before_call = lambda method, _: calls.append(method)
    bench.set_up(secret(), fs_group=2000, refresh=True)
    assert (calls, bench.host.snapshot(path)) == ([], before)


def test_a_running_pod_keeps_its_files_when_a_key_or_the_whole_object_vanishes(bench: PluginBench) -> None:
    bench.secret("s", a="1", b="2")
    volume = secret(*items(a="a", b="b"))
    path = bench.set_up(volume)
    before = bench.host.snapshot(path)
    bench.secret("s", a="1")
    with pytest.raises(NotYet, match="references non-existent secret key: b"):
        bench.set_up(volume, refresh=True)
    bench.objects.remove(ObjectRef("Secret", "shop", "s"))
    with pytest.raises(NotYet, match="not found"):
        bench.set_up(volume, refresh=True)
    assert bench.host.snapshot(path) == before


@pytest.mark.parametrize("kind", ["refresh", "reconstructed"])
def test_a_failing_write_over_a_volume_in_use_leaves_it_as_it_is(bench: PluginBench, kind: str) -> None:
    bench.config_map("c", a="1")
    path = bench.set_up(config())
    before = bench.host.snapshot(path)
    bench.config_map("c", a="2")
    bench.host.before_call = _fail_at("write_files", errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"):
        bench.set_up(config(), refresh=kind == "refresh", reconstructed=kind == "reconstructed")
    assert bench.host.snapshot(path) == before


# -- failures of the first set-up ----------------------------------------------------------------------------------
def _fail_at(wanted: str, code: int) -> Hook:
    def fail(method: str, path: str) -> None:
        if method == wanted:
            raise OSError(code, os.strerror(code), path)

    return fail


@pytest.mark.parametrize("step", ["write_files", "make_link", "set_ownership"])
def test_a_first_set_up_that_fails_after_the_tmpfs_is_mounted_leaves_nothing(bench: PluginBench, step: str) -> None:
    bench.secret("s", a="hunter2")
    before = bench.host.snapshot().mounts
    bench.host.before_call = _fail_at(step, errno.ENOSPC)
    with pytest.raises(Refused, match="No space left on device") as caught:
        bench.set_up(secret(), fs_group=2000)
    assert bench.host.look(bench.path(secret())) is None
    assert bench.host.snapshot().mounts == before
    assert "hunter2" not in str(caught.value)


def test_when_cleaning_up_fails_too_the_doubt_is_told(bench: PluginBench) -> None:
    bench.secret("s", a="1")

    def fail(method: str, path: str) -> None:
        if method in ("write_files", "unmount"):
            raise OSError(errno.EIO, "Input/output error", path)

    bench.host.before_call = fail
    with pytest.raises(OSError, match="Input/output error"):
        bench.set_up(secret())


def test_a_full_disk_is_a_refusal_that_names_it(bench: PluginBench) -> None:
    bench.config_map("c", a="x" * 4096)
    bench.host.limit_disk(1024)
    with pytest.raises(Refused, match="No space left on device") as caught:
        bench.set_up(config())
    assert "Make room" in caught.value.next_step
    assert bench.host.look(bench.path(config())) is None


@pytest.mark.parametrize(("volume", "mounted"), [(config(), False), (secret(), True)], ids=["configMap", "secret"])
def test_a_ready_mark_from_before_a_reboot_does_not_hinder_the_set_up(
    bench: PluginBench, volume: Volume, mounted: bool
) -> None:
    bench.config_map("c", a="1")
    bench.secret("s", a="1")
    path = bench.set_up(volume)
    bench.host.reboot()
    bench.set_up(volume)
    assert bench.texts(path) == {"a": "1"}
    assert (bench.host.mount_at(path) is not None) is mounted


def test_tear_down_takes_files_mount_and_mark_away_and_may_be_repeated(bench: PluginBench) -> None:
    bench.secret("s", a="1")
    before = bench.host.snapshot().mounts
    path = bench.set_up(secret())
    bench.tear_down(secret())
    bench.tear_down(secret())
    assert bench.host.look(path) is None
    assert bench.host.snapshot().mounts == before
    assert bench.host.names_in("/var/lib/mooring/pods/uid-1/plugins/kubernetes.io~empty-dir") == []


def test_stacked_mounts_of_a_crash_are_all_taken_away(bench: PluginBench) -> None:
    bench.secret("s", a="1")
    path = bench.set_up(secret())
    bench.host.mount_tmpfs(path)
    bench.tear_down(secret())
    assert bench.host.look(path) is None


def test_secrets_live_in_memory_alone_and_config_maps_on_disk(bench: PluginBench) -> None:
    bench.secret("s", a="1")
    bench.config_map("c", a="1")
    in_memory = bench.host.mount_at(bench.set_up(secret()))
    assert in_memory is not None
    assert (in_memory.fs_type, "noswap" in in_memory.options) == ("tmpfs", True)
    assert bench.host.mount_at(bench.set_up(replace(config(), name="w"))) is None
