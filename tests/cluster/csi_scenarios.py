"""Pods with CSI volumes, each set written so that one thing about the calls to the driver matters."""

from __future__ import annotations

from dataclasses import dataclass

from tests.cluster.csi_manifests import (
    NAME,
    SECRETS,
    Manifest,
    attachment,
    claim,
    driver,
    growing_class,
    pod,
    secret,
    secret_manifests,
    service_account,
    volume,
    written,
)
from tests.cluster.mock_driver import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Objects and pods for one driver and at most one volume of it."""

    name: str
    manifests: tuple[Manifest, ...]
    driver: str = "loop"  # the bundled one, or "mock"
    flags: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()  # for answers of the mock driver
    ready: bool = True  # the pods come to have their volumes
    block: bool = False

    @property
    def pods(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.manifests if each["kind"] == "Pod"]

    def written(self, handle: str) -> str:
        """The manifests for a volume that the driver knows by this handle."""
        return written(self.manifests, handle)


_INLINE = {"csi": {"driver": NAME, "fsType": "ext4", "volumeAttributes": {"size": "32Mi"}}}
_MOCK = ("--no-attach",)


def _failing(name: str, rule: Rule, *, ready: bool = True) -> Scenario:
    manifests = (driver(), volume(), claim(), pod())
    return Scenario(name=name, manifests=manifests, driver="mock", flags=_MOCK, rules=(rule,), ready=ready)


SCENARIOS = (
    Scenario(
        name="a file system",
        manifests=(driver(), volume(csi={"fsType": "ext4", "volumeAttributes": {"color": "blue"}}), claim(), pod()),
    ),
    Scenario(
        name="a raw block device",
        manifests=(driver(), volume(volumeMode="Block"), claim(volumeMode="Block"), pod(block=True)),
        block=True,
    ),
    Scenario(
        name="a raw block device of two pods, one of which reads only",
        manifests=(
            driver(),
            volume(volumeMode="Block"),
            claim(volumeMode="Block"),
            pod(block=True),
            pod("two", block=True, read_only=True),
        ),
        block=True,
    ),
    Scenario(
        name="an inline volume",
        manifests=(driver(volumeLifecycleModes=["Ephemeral"], podInfoOnMount=True), pod(source=_INLINE)),
    ),
    Scenario(
        name="an inline volume that is read-only",
        manifests=(
            driver(volumeLifecycleModes=["Persistent", "Ephemeral"], podInfoOnMount=True),
            pod(source={"csi": {**_INLINE["csi"], "readOnly": True}}, serviceAccountName="builder"),
            service_account("builder"),
        ),
    ),
    Scenario(name="two pods share a volume", manifests=(driver(), volume(), claim(), pod(), pod("two"))),
    Scenario(name="a pod that reads only", manifests=(driver(), volume(), claim(), pod(read_only=True))),
    Scenario(
        name="a volume that is read-only",
        manifests=(driver(), volume(csi={"readOnly": True}), claim(), pod()),
    ),
    Scenario(
        name="mount options",
        manifests=(driver(), volume(mountOptions=["noatime", "nodiratime"]), claim(), pod()),
    ),
    Scenario(name="pod info", manifests=(driver(podInfoOnMount=True), volume(), claim(), pod())),
    Scenario(
        name="secrets for stage and publish",
        manifests=secret_manifests(),
    ),
    Scenario(
        name="a group for files",
        manifests=(
            driver(fsGroupPolicy="File"),
            volume(csi={"fsType": "ext4"}),
            claim(),
            pod(securityContext={"fsGroup": 2000}),
        ),
    ),
    Scenario(
        name="a group that the driver sets",
        manifests=(
            driver(fsGroupPolicy="File"),
            volume(csi={"fsType": "ext4"}),
            claim(),
            pod(securityContext={"fsGroup": 2000}),
        ),
        driver="mock",
        flags=("--no-attach", "--mount-group"),
    ),
    Scenario(
        name="one pod alone",
        manifests=(driver(), volume(mode="ReadWriteOncePod"), claim(mode="ReadWriteOncePod"), pod()),
    ),
    Scenario(
        name="one pod alone, with a driver of before such modes",
        manifests=(driver(), volume(mode="ReadWriteOncePod"), claim(mode="ReadWriteOncePod"), pod()),
        driver="mock",
        flags=_MOCK,
    ),
    Scenario(
        name="many nodes",
        manifests=(driver(), volume(mode="ReadWriteMany"), claim(mode="ReadWriteMany"), pod()),
        driver="mock",
        flags=_MOCK,
    ),
    Scenario(
        name="several access modes",
        manifests=(
            driver(),
            volume(accessModes=["ReadWriteOnce", "ReadOnlyMany"]),
            claim(mode="ReadOnlyMany"),
            pod(),
        ),
        driver="mock",
        flags=_MOCK,
    ),
    Scenario(
        name="a driver that does not stage",
        manifests=(
            driver(podInfoOnMount=True),
            volume(csi=SECRETS),
            claim(),
            secret("stage"),
            secret("publish"),
            pod(),
        ),
        driver="mock",
        flags=("--no-attach", "--no-stage"),
    ),
    Scenario(
        name="tokens of the pod",
        manifests=(
            driver(tokenRequests=[{"audience": "vault"}, {"audience": "", "expirationSeconds": 3600}]),
            volume(),
            claim(),
            service_account("builder"),
            pod(serviceAccountName="builder"),
        ),
        driver="mock",
        flags=_MOCK,
    ),
    Scenario(
        name="an attached volume",
        manifests=(driver(attachRequired=True), volume(), claim(), attachment(), pod()),
        driver="mock",  # which refuses to stage without what the attachment tells
    ),
    Scenario(
        name="a volume that grew while nobody used it",
        manifests=(
            driver(),
            volume(capacity={"storage": "96Mi"}, csi={"fsType": "ext4"}, storageClassName="grows"),
            claim(storageClassName="grows", grows_to="96Mi"),
            growing_class(),
            pod(),
        ),
        driver="mock",
        flags=("--no-attach", "--node-expansion"),
    ),
    _failing("a stage that is put off once", Rule(method="NodeStageVolume", code="ABORTED", when="after", times=1)),
    _failing("a publish that is refused once", Rule(method="NodePublishVolume", code="INTERNAL", times=1)),
    _failing("an unpublish that does not find it, once", Rule(method="NodeUnpublishVolume", code="NOT_FOUND", times=1)),
    _failing("an unstage that fails once", Rule(method="NodeUnstageVolume", code="INTERNAL", times=1)),
    *(
        _failing(f"a {word} that always fails {when} its effect with {code}", rule, ready=False)
        for word, method in (("stage", "NodeStageVolume"), ("publish", "NodePublishVolume"))
        for code, when in (("ABORTED", "after"), ("DEADLINE_EXCEEDED", "after"), ("INVALID_ARGUMENT", "before"))
        for rule in [Rule(method=method, code=code, when=when)]
    ),
)
