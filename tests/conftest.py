"""What holds for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long an example takes says more of what else the machine does than of us.
settings.register_profile("unhurried", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
