"""The Identity service: who the driver is, and what it can do."""

from __future__ import annotations

from google.protobuf.wrappers_pb2 import BoolValue

from mooring import __version__
from mooring.loop_driver.driver import Calls, Driver
from mooring.stubs import csi_pb2 as csi

_Service = csi.PluginCapability.Service
_Expansion = csi.PluginCapability.VolumeExpansion


class Identity:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def calls(self) -> Calls:
        return {
            csi.GetPluginInfoRequest: self.info,
            csi.GetPluginCapabilitiesRequest: self.capabilities,
            csi.ProbeRequest: self.probe,
        }

    async def info(self, _: csi.GetPluginInfoRequest) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=self._driver.options.name, vendor_version=__version__)

    async def capabilities(self, _: csi.GetPluginCapabilitiesRequest) -> csi.GetPluginCapabilitiesResponse:
        services = (_Service.CONTROLLER_SERVICE, _Service.VOLUME_ACCESSIBILITY_CONSTRAINTS)
        return csi.GetPluginCapabilitiesResponse(
            capabilities=[
                *(csi.PluginCapability(service=_Service(type=each)) for each in services),
                csi.PluginCapability(volume_expansion=_Expansion(type=_Expansion.ONLINE)),
            ]
        )

    async def probe(self, _: csi.ProbeRequest) -> csi.ProbeResponse:
        return csi.ProbeResponse(ready=BoolValue(value=True))
