"""Pods that store too much on this node, clones of repositories, and huge pages, with the real daemon."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.node.daemon.conftest import Daemon, pod

pytestmark = pytest.mark.node


def test_a_pod_above_its_limit_is_evicted_and_its_volumes_go(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORING_LIMIT_CHECK_INTERVAL", "20ms")
    daemon.write("web.yaml", pod("web", "cache: emptyDir: {sizeLimit: 1Mi}"))
    daemon.up("web")
    path = daemon.path("web/cache")
    (path / "file").write_bytes(b"x" * (2 << 20))
    daemon.until(lambda: not path.exists())
    (told,) = [event for event in daemon.json("get", "events") if event["reason"] == "Evicted"]
    assert told["message"].strip() == 'Usage of EmptyDir volume "cache" exceeds the limit "1Mi".'
    daemon.done("down")


def test_a_pod_below_its_limit_stays(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORING_LIMIT_CHECK_INTERVAL", "20ms")
    daemon.write("a.yaml", pod("small", "cache: emptyDir: {sizeLimit: 1Mi}"))
    daemon.write("b.yaml", pod("large", "cache: emptyDir: {sizeLimit: 1Mi}"))
    daemon.up("small", "large")
    small, large = daemon.path("small/cache"), daemon.path("large/cache")
    (small / "file").write_bytes(b"x")
    (large / "file").write_bytes(b"x" * (2 << 20))
    daemon.until(lambda: not large.exists())  # by then the other was measured, too
    assert (small / "file").exists()
    daemon.done("down")


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_repository_is_really_cloned_at_its_revision(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORING_ALLOW_GIT_REPO", "yes")
    repository = Path(daemon.root).parent / "shop"

    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=n", "-c", "user.email=e@example.com")
        subprocess.run(["git", *identity, "-C", str(repository), *arguments], check=True, capture_output=True)

    repository.mkdir()
    git("init", "-q")
    for text in ("one", "two"):
        (repository / "file").write_text(text)
        git("add", "file")
        git("commit", "-qm", text)
        git("tag", text)
    source = f"file://{repository}"
    daemon.write("web.yaml", pod("web", f"code: gitRepo: {{repository: '{source}', revision: one, directory: .}}"))
    daemon.up("web")
    assert (daemon.path("web/code") / "file").read_text() == "one"
    daemon.done("down")


def test_a_repository_is_not_cloned_unless_that_is_allowed(daemon: Daemon) -> None:
    daemon.write("web.yaml", pod("web", "code: gitRepo: {repository: 'https://example.com/x.git'}"))
    daemon.up()
    daemon.until(lambda: "allow_git_repo" in str(daemon.json("explain", "web")["volumes"][0]["cause"]))
    daemon.done("down")


def huge_pod() -> str:
    return pod("web", "pages: emptyDir: {medium: HugePages}").replace(
        "  - name: main\n", "  - name: main\n    resources: {limits: {hugepages-2Mi: 4Mi, memory: 1Mi}}\n"
    )


def test_huge_pages_are_mounted_where_the_machine_has_them_and_else_named(daemon: Daemon) -> None:
    pool = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
    if not pool.exists():
        pytest.skip("this kernel has no huge pages of 2 MiB")
    before = pool.read_text()
    daemon.write("web.yaml", huge_pod())
    daemon.up()
    if int(before) == 0:
        daemon.until(lambda: "nr_hugepages" in str(daemon.json("explain", "web")["volumes"][0]["next_step"]))
        pool.write_text("4")
    try:
        if int(pool.read_text()) == 0:
            pytest.skip("this machine gives no memory for huge pages")
        daemon.done("wait", "web", "--timeout", "20s")
        path = daemon.path("web/pages")
        assert f" {path} hugetlbfs " in Path("/proc/self/mounts").read_text()
        daemon.done("down")
        assert not path.exists()
    finally:
        pool.write_text(before)
