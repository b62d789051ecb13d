"""Where things lie below the root directory, and which names never become part of a path."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mooring.host.paths import Paths, unescape_plugin_name


def test_a_volume_lies_below_its_pod_with_the_plugin_name_escaped() -> None:
    path = Paths("/var/lib/mooring").pod_volume_dir("uid-1", "kubernetes.io/empty-dir", "cache")
    assert path == "/var/lib/mooring/pods/uid-1/volumes/kubernetes.io~empty-dir/cache"


def test_the_layout_is_the_kubelets() -> None:
    paths = Paths("/r")
    assert paths.pods_dir == "/r/pods"
    assert paths.pod_dir("u") == "/r/pods/u"
    assert paths.pod_volumes_dir("u") == "/r/pods/u/volumes"
    assert paths.pod_plugins_dir("u") == "/r/pods/u/plugins"
    assert paths.pod_plugin_dir("u", "kubernetes.io/empty-dir", "v") == "/r/pods/u/plugins/kubernetes.io~empty-dir/v"
    assert paths.pod_device("u", "kubernetes.io/csi", "v") == "/r/pods/u/volumeDevices/kubernetes.io~csi/v"
    assert paths.pod_subpath("u", "v", "c", 3) == "/r/pods/u/volume-subpaths/v/c/3"
    assert paths.pod_containers_dir("u") == "/r/pods/u/containers"
    assert paths.plugin_dir("kubernetes.io/iscsi") == "/r/plugins/kubernetes.io/iscsi"
    assert paths.plugin_devices_dir("kubernetes.io/iscsi") == "/r/plugins/kubernetes.io/iscsi/volumeDevices"
    assert paths.registry_dir == "/r/plugins_registry"


def test_the_managers_own_files_lie_in_the_root_directory() -> None:
    paths = Paths("/r")
    assert {paths.socket, paths.lock_file, paths.history_file, paths.store_dir} == {
        "/r/mooring.sock",
        "/r/mooring.lock",
        "/r/history.jsonl",
        "/r/store",
    }


def test_the_root_of_the_machine_can_be_the_root_directory() -> None:
    assert Paths("/").pod_dir("u") == "/pods/u"
    assert Paths("/").socket == "/mooring.sock"


@pytest.mark.parametrize("root", ["relative", "", "/a/../b", "/a/", "//a", "/a//b", "/a/."])
def test_the_root_directory_is_a_clean_absolute_path(root: str) -> None:
    with pytest.raises(ValueError, match="clean absolute path"):
        Paths(root)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/", "../../etc", "nul\0"])
def test_a_name_that_leads_elsewhere_is_refused_in_every_position(name: str) -> None:
    paths = Paths("/r")
    builders: list[Callable[[], str]] = [
        lambda: paths.pod_dir(name),
        lambda: paths.pod_volume_dir(name, "p", "v"),
        lambda: paths.pod_volume_dir("u", "p", name),
        lambda: paths.pod_plugin_dir("u", "p", name),
        lambda: paths.pod_device("u", "p", name),
        lambda: paths.pod_subpath("u", name, "c", 0),
        lambda: paths.pod_subpath("u", "v", name, 0),
    ]
    for build in builders:
        with pytest.raises(ValueError, match="cannot be part of a path"):
            build()


@pytest.mark.parametrize("plugin", ["", "..", "../x", "a//b", "/a"])
def test_a_plugin_name_does_not_lead_out_of_the_plugins_directory(plugin: str) -> None:
    with pytest.raises(ValueError, match="cannot be part of a path"):
        Paths("/r").plugin_dir(plugin)


def test_an_escaped_plugin_name_can_be_read_back() -> None:
    assert unescape_plugin_name("kubernetes.io~empty-dir") == "kubernetes.io/empty-dir"
