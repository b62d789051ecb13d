"""Volumes that want to be set up again by themselves: tokens are replaced in time, and no timer outlives its wish."""

from __future__ import annotations

import asyncio

from mooring.controllers.token_manager import TokenManager
from mooring.errors import Refused
from mooring.kube.objects.certificates import ClusterTrustBundle, ClusterTrustBundleSpec
from mooring.kube.objects.meta import LabelSelector, ObjectMeta
from mooring.kube.objects.pod import Container, Pod, PodSpec, ServiceAccount, VolumeMount
from mooring.kube.objects.volumes import (
    ClusterTrustBundleProjection,
    ConfigMapProjection,
    ProjectedVolumeSource,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
)
from mooring.kube.pem import to_pem
from mooring.manager.second_looks import SecondLooks
from mooring.settings import Settings
from mooring.testing.memory_node import ROOT, MemoryNode
from mooring.testing.numbered_tokens import NoJitter, NumberedIssuer
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.changes import Finished
from mooring.world.desired import DesiredStateOfWorld
from mooring.world.names import PodUid, VolumeName
from mooring.world.operations import Mount
from mooring.world.outcomes import Outcome
from mooring.world.presence import Result

WEB = PodUid("uid-web")
NEVER = Settings(root=ROOT, node_name="memory-node", refresh_interval=1e9)
"""Settings without the periodic refresh: whatever is looked at again asked for it."""

TOKEN = VolumeProjection(service_account_token=ServiceAccountTokenProjection(path="token", expiration_seconds=3600))


def web(*sources: VolumeProjection, account: str = "") -> Pod:
    mounts = (VolumeMount(name="v", mount_path="/v"),)
    volume = Volume(name="v", projected=ProjectedVolumeSource(sources=sources))
    return Pod(
        metadata=ObjectMeta(name="web", namespace="shop", uid=WEB),
        spec=PodSpec(
            volumes=(volume,),
            containers=(Container(name="main", volume_mounts=mounts),),
            service_account_name=account,
        ),
    )


class Shop:
    """A node in memory whose tokens are numbered."""

    def __init__(self, settings: Settings = NEVER) -> None:
        self.issuer = NumberedIssuer()
        clock = asyncio.get_running_loop().time
        self.tokens = TokenManager(self.issuer, clock=clock, random=NoJitter())
        self.node = MemoryNode(settings=settings, tokens=self.tokens)
        self.issuer.accounts = self.node.objects

    @property
    def timers(self) -> int:
        return len(self.node.manager.second_looks)

    def read(self, name: str = "token") -> str:
        path = self.node.manager.get_mounted_volumes_for_pod(WEB)["v"].path
        return self.node.host.read_file(f"{path}/{name}").decode()

    async def mount(self, pod: Pod) -> None:
        self.node.add_pod(pod)
        await self.node.manager.wait_for_attach_and_mount(pod)


async def sleep_until(moment: float) -> None:
    await asyncio.sleep(moment - asyncio.get_running_loop().time())


@in_virtual_time
async def test_a_token_is_replaced_at_four_fifths_of_its_lifetime_by_its_one_timer() -> None:
    shop = Shop()
    async with shop.node.running():
        await shop.mount(web(TOKEN))
        for number in range(1, 5):
            await sleep_until(2880 * number - 1)
            assert (shop.read(), shop.timers) == (f"token-{number}", 1)
            await sleep_until(2880 * number + 1)
            assert (shop.read(), shop.timers) == (f"token-{number + 1}", 1)
    assert len(shop.issuer.asked) == 5


@in_virtual_time
async def test_looks_for_other_reasons_neither_add_timers_nor_replace_the_token() -> None:
    shop = Shop(Settings(root=ROOT, node_name="memory-node", refresh_interval=100))
    async with shop.node.running() as manager:
        await shop.mount(web(TOKEN))
        await sleep_until(2879)
        manager.populator.refresh_pod(WEB)
        await asyncio.sleep(0.5)
        assert (shop.read(), shop.timers, len(shop.issuer.asked)) == ("token-1", 1, 1)
        await sleep_until(2881)
        assert (shop.read(), shop.timers) == ("token-2", 1)


@in_virtual_time
async def test_a_volume_that_asks_for_nothing_has_no_timer() -> None:
    shop = Shop()
    async with shop.node.running():
        await shop.mount(web(VolumeProjection(config_map=ConfigMapProjection(name="c", optional=True))))
        assert shop.timers == 0


@in_virtual_time
async def test_the_timer_and_the_token_go_with_the_pod() -> None:
    shop = Shop()
    async with shop.node.running() as manager:
        await shop.mount(web(TOKEN))
        shop.node.remove_pod(WEB)
        assert shop.timers == 0
        await manager.wait_for_uid_unmount(WEB)
        assert (shop.timers, len(shop.tokens)) == (0, 0)


@in_virtual_time
async def test_no_timer_is_left_when_the_manager_has_stopped() -> None:
    shop = Shop()
    async with shop.node.running():
        await shop.mount(web(TOKEN))
        assert shop.timers == 1
    assert shop.timers == 0


@in_virtual_time
async def test_after_a_restart_the_token_is_issued_anew_and_replaced_in_time() -> None:
    shop = Shop()
    async with shop.node.running():
        await shop.mount(web(TOKEN))
    shop.tokens.forget_pod(WEB)
    shop.node.new_manager()
    async with shop.node.running():
        await shop.mount(web(TOKEN))
        assert (shop.read(), shop.timers) == ("token-2", 1)
        await asyncio.sleep(2881)
        assert shop.read() == "token-3"


@in_virtual_time
async def test_a_refresh_that_cannot_be_signed_keeps_the_token_and_is_tried_each_minute() -> None:
    shop = Shop()
    async with shop.node.running():
        await shop.mount(web(TOKEN))
        shop.issuer.failure = Refused("cannot sign", why="the key is gone")
        await sleep_until(2881)
        assert (shop.read(), shop.timers, len(shop.issuer.asked)) == ("token-1", 1, 2)
        shop.issuer.failure = None
        await sleep_until(2880 + 61)
        assert (shop.read(), shop.timers, len(shop.issuer.asked)) == ("token-2", 1, 3)


@in_virtual_time
async def test_a_volume_mounts_as_soon_as_its_service_account_appears() -> None:
    shop = Shop()
    async with shop.node.running() as manager:
        shop.node.add_pod(web(TOKEN, account="clerk"))
        await asyncio.sleep(3600)
        assert not manager.get_mounted_volumes_for_pod(WEB)
        before = asyncio.get_running_loop().time()
        shop.node.put(ServiceAccount(metadata=ObjectMeta(name="clerk", namespace="shop", uid="uid-clerk")))
        await manager.wait_for_attach_and_mount(web(TOKEN, account="clerk"))
        assert asyncio.get_running_loop().time() == before
        assert shop.read() == "token-1"


@in_virtual_time
async def test_a_new_bundle_of_a_signer_reaches_the_file_at_once() -> None:
    source = ClusterTrustBundleProjection(
        path="ca.pem", signer_name="example.com/x", label_selector=LabelSelector(), optional=True
    )
    certificate = b"\x30\x03one"
    shop = Shop()
    async with shop.node.running():
        await shop.mount(web(VolumeProjection(cluster_trust_bundle=source)))
        assert shop.read("ca.pem") == ""
        shop.node.put(
            ClusterTrustBundle(
                metadata=ObjectMeta(name="example.com:x:a"),
                spec=ClusterTrustBundleSpec(signer_name="example.com/x", trust_bundle=to_pem([certificate])),
            )
        )
        await asyncio.sleep(0.1)
        assert shop.read("ca.pem") == to_pem([certificate])


@in_virtual_time
async def test_a_mount_that_ends_after_its_wish_went_sets_no_timer() -> None:
    looks = SecondLooks(DesiredStateOfWorld())
    operation = Mount(VolumeName("v"), WEB)
    outcome = Outcome(result=Result.DONE, look_again_after=60)
    looks.listen(Finished(operation=operation, outcome=outcome, at=0, seconds=0))
    assert len(looks) == 0
