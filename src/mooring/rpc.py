"""gRPC and the messages that travel by it, loaded when something of them is used for the first time.

They cost a process 17 MB and a tenth of a second, and most nodes have no driver that needs them.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["csi", "csi_services", "grpc", "registration", "registration_services"]

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # programs are started without the interpreter being forked


def _late(name: str) -> ModuleType:
    """A module that is empty until it is looked into."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


if TYPE_CHECKING:
    import grpc

    from mooring.stubs import csi_pb2 as csi
    from mooring.stubs import csi_pb2_grpc as csi_services
    from mooring.stubs import registration_pb2 as registration
    from mooring.stubs import registration_pb2_grpc as registration_services
else:
    grpc = _late("grpc")
    csi, csi_services = _late("mooring.stubs.csi_pb2"), _late("mooring.stubs.csi_pb2_grpc")
    registration = _late("mooring.stubs.registration_pb2")
    registration_services = _late("mooring.stubs.registration_pb2_grpc")
