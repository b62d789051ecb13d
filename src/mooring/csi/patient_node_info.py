"""What drivers say about a node of a cluster, written as soon as the API server can be reached and there is a Node."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from mooring.csi.drivers import Driver
from mooring.csi.node_info import NodeInfoManager
from mooring.errors import MooringError
from mooring.kube.api import UNANSWERED, Api, NotFound
from mooring.kube.backoff import Backoff, BackoffSettings
from mooring.kube.objects.kinds import NODE
from mooring.kube.objects.node import Node

log = logging.getLogger(__name__)

_PAUSES = BackoffSettings(base=0.5, cap=30.0, jitter=0.5)
_LATER = (*UNANSWERED, NotFound)
"""Errors after which something is written later: the server is away, or there is no Node."""


class PatientNodeInfo(NodeInfoManager):
    """As its parent, but a driver registers also while the server is away: its volumes must not wait for it.

    What could not be written is, later, in `run`; so is the CSINode itself, which a node has from its start on. A Node
    that was deleted took all of it along: for the one that takes its place everything is written again.
    """

    def __init__(self, api: Api, node_name: str) -> None:
        super().__init__(api, node_name)
        self._installed: dict[str, Driver] = {}
        self._open: dict[str, Driver | None] = {}  # None: it is gone
        self._wake = asyncio.Event()
        self.begun = asyncio.Event()  # the CSINode is there, for the Node that is there
        self.begun_changed: Callable[[], None] = lambda: None
        self._written_for = ""  # the UID of the Node that has all that was not left for later
        self._anew = False  # another Node has taken its place
        self._pauses: Backoff | None = None  # between tries, once one has failed

    async def _node(self) -> Node:
        """The Node; `NotFound` while there is none: what would be written then, nobody would find later."""
        return await self._api.get(NODE, "", self._node_name)

    async def install(self, driver: Driver) -> None:
        self._open.pop(driver.name, None)
        self._installed[driver.name] = driver
        try:
            await super().install(driver)
        except _LATER as error:
            self._later(driver.name, driver, error)

    async def uninstall(self, name: str) -> None:
        self._open.pop(name, None)
        self._installed.pop(name, None)
        try:
            await super().uninstall(name)
        except _LATER as error:
            self._later(name, None, error)

    def _later(self, name: str, driver: Driver | None, error: MooringError) -> None:
        log.warning("what CSI driver %s says of this node is written later: %s", name, error)
        self._open[name] = driver
        self._wake.set()

    def hurry(self) -> None:
        """Write now what could not be written: the server serves again."""
        if self._pauses is not None:
            self._pauses.start_over()

    def node_seen(self, node: Node) -> None:
        """The server tells of the Node. One that is not known yet has nothing of what drivers say."""
        if node.metadata.uid == self._written_for:
            return
        self.node_gone()
        self._anew = True
        self._wake.set()
        self.hurry()

    def node_gone(self) -> None:
        """The Node was deleted, and with it goes what drivers say of it."""
        if self.begun.is_set():
            self.begun.clear()
            self.begun_changed()

    async def run(self) -> None:
        """Make the CSINode, then write what is open, until cancelled; from the beginning for each new Node."""
        while True:
            self._anew = False
            await self._until_begun()
            self.begun.set()
            self.begun_changed()
            self._wake.set()
            await self._write_until_anew()

    async def _write_until_anew(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            pauses = self._pauses = Backoff(_PAUSES, random.Random())
            while self._open and not self._anew:
                await pauses.wait()
                for name, driver in list(self._open.items()):
                    await self._write_open(name, driver)
            if self._anew:
                return

    async def _until_begun(self) -> None:
        pauses = self._pauses = Backoff(_PAUSES, random.Random())
        told = False
        while True:
            try:
                uid = await self.begin()
            except NotFound:
                pass  # it will come, or there would be nothing to do here
            except MooringError as error:
                if not told:
                    log.warning("cannot make the CSINode yet, and goes on trying: %s", error)
                told = True
            else:
                self._begun_for(uid)
                return
            await pauses.wait()

    def _begun_for(self, uid: str) -> None:
        if uid != self._written_for:
            self._open = {**self._installed, **self._open}
        self._written_for = uid

    async def _write_open(self, name: str, driver: Driver | None) -> None:
        if name not in self._open or self._open[name] is not driver:
            return  # it was written meanwhile, or another one of its name has come since
        try:
            if driver is not None:
                await super().install(driver)
            else:
                await super().uninstall(name)
        except _LATER:
            return
        except MooringError as error:
            log.error("cannot note what CSI driver %s says of this node: %s", name, error)
        if self._open.get(name, driver) is driver:
            self._open.pop(name, None)
