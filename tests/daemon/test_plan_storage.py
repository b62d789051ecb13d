"""`mooring plan` over volumes that need a network, a driver or a program: what it needs, and what it would wait for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.daemon.conftest import CommandLine
from tests.daemon.test_plan import plan, pod


@pytest.mark.parametrize(
    ("source", "risks"),
    [
        ("nfs: {server: files, path: /x}", ["waits for files, which may not answer"]),
        (
            "iscsi: {targetPortal: 10.0.0.1, iqn: 'iqn.2026-01.a:b'}",
            ["logs in to iqn.2026-01.a:b at 10.0.0.1", "formats the disk if it carries nothing"],
        ),
        (
            "fc: {wwids: ['3600']}",
            [
                "lets all SCSI hosts look for disks if the disk is not there yet",
                "formats the disk if it carries nothing",
            ],
        ),
    ],
)
def test_what_a_volume_needs_is_told_as_a_risk(
    mooring: CommandLine, manifests: Path, source: str, risks: list[str]
) -> None:
    answer = plan(mooring, manifests, pod("web", source))
    assert answer["waits"] == []
    assert [row["risks"] for row in answer["operations"]] == [risks]


@pytest.mark.parametrize(
    ("source", "cause", "next_step"),
    [
        ("gitRepo: {repository: 'https://x/y.git'}", "the setting allow_git_repo is off", "init container"),
        ("flexVolume: {driver: example.com/d}", "no FlexVolume driver 'example.com/d'", "example.com~d/d"),
        ("emptyDir: {medium: HugePages}", "no container requests huge pages", "hugepages-2Mi"),
        (
            "iscsi: {targetPortal: p, iqn: iqn.2026-01.a, chapAuthSession: true, secretRef: {name: s}}",
            "its Secret 'default/s' with the CHAP credentials does not exist",
            "Create it",
        ),
    ],
)
def test_what_a_volume_would_wait_for_is_told_with_what_to_do(
    mooring: CommandLine, manifests: Path, source: str, cause: str, next_step: str
) -> None:
    (wait,) = plan(mooring, manifests, pod("web", source))["waits"]
    assert cause in wait["cause"]
    assert next_step in wait["next_step"]


def test_a_driver_is_not_run_for_a_plan(
    mooring: CommandLine, manifests: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "drivers/example.com~d/d"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    monkeypatch.setenv("MOORING_FLEX_VOLUME_DIRECTORY", str(tmp_path / "drivers"))
    answer = plan(mooring, manifests, pod("web", "flexVolume: {driver: example.com/d}"))
    assert answer["waits"] == []
    assert {risk for row in answer["operations"] for risk in row["risks"]} == {
        "runs the driver example.com/d as the user that mooring runs as"
    }
    assert not (tmp_path / "ran").exists()
