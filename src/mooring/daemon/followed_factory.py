"""Informers of a cluster whose trouble is told to people, and not at each try."""

from __future__ import annotations

import asyncio
import logging

from mooring.errors import MooringError
from mooring.kube.api import ListerWatcher
from mooring.kube.informer import SharedIndexInformer
from mooring.kube.informer_factory import SharedInformerFactory, Tweak
from mooring.kube.objects.kinds import Kind, ObjectT
from mooring.kube.reflector import REFLECT_ALL

log = logging.getLogger(__name__)

_SAY_AGAIN = 300.0
"""Seconds after which the same trouble is worth another line in the log."""


class FollowedFactory(SharedInformerFactory):
    """A factory whose informers say once, not at each try, why they cannot read."""

    def __init__(self, api: ListerWatcher, *, tweak: Tweak = lambda kind: REFLECT_ALL) -> None:
        super().__init__(api, tweak=tweak)
        self._said: dict[str, float] = {}

    def informer(self, kind: Kind[ObjectT]) -> SharedIndexInformer[ObjectT]:
        is_new = kind.name not in self._informers
        made = super().informer(kind)
        if is_new:
            made.set_error_handler(self._complain)
        return made

    def _complain(self, error: MooringError) -> None:
        now = asyncio.get_running_loop().time()
        if error.why not in self._said or now - self._said[error.why] >= _SAY_AGAIN:
            self._said[error.why] = now
            log.warning("cannot follow the cluster, and goes on trying: %s", error.why)
