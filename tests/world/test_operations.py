"""Operations as values: whom they serve, and what the kubelet calls them."""

from __future__ import annotations

import pytest

from mooring.world.names import PodUid, VolumeName
from mooring.world.operations import (
    Attach,
    Detach,
    Expand,
    MakePodDirectory,
    Mount,
    Operation,
    RemovePodDirectory,
    Stage,
    Unmount,
    Unstage,
    kind_of,
    pod_of,
)

V, POD = VolumeName("a/b/v"), PodUid("u")


@pytest.mark.parametrize(
    ("operation", "kind", "pod"),
    [
        (Attach(V), "volume_attach", None),
        (Stage(V), "mount_device", None),
        (Mount(V, POD), "volume_mount", POD),
        (Mount(V, POD, refresh=True), "volume_mount", POD),
        (Expand(V, POD), "volume_fs_resize", POD),
        (Unmount(V, POD), "volume_unmount", POD),
        (Unstage(V), "unmount_device", None),
        (Detach(V), "volume_detach", None),
        (MakePodDirectory(POD), "make_pod_directory", POD),
        (RemovePodDirectory(POD), "remove_pod_directory", POD),
    ],
)
def test_each_operation_has_the_kubelets_name_and_its_pod(operation: Operation, kind: str, pod: PodUid | None) -> None:
    assert kind_of(operation) == kind
    assert pod_of(operation) == pod
