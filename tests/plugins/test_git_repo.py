"""gitRepo volumes: off unless allowed, how git is called, and what never reaches it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.plugins.conftest import UID, PluginBench

from mooring.errors import Refused
from mooring.host.programs import ProgramMissing, ProgramResult
from mooring.kube.objects.volumes import GitRepoVolumeSource, Volume

ROOT = "/var/lib/mooring"
PATH = f"{ROOT}/pods/{UID}/volumes/kubernetes.io~git-repo/code"
REPOSITORY = "https://example.com/shop.git"


def volume(repository: str = REPOSITORY, *, revision: str = "", directory: str = "") -> Volume:
    source = GitRepoVolumeSource(repository=repository, revision=revision, directory=directory)
    return Volume(name="code", git_repo=source)


@pytest.fixture
def allowed() -> PluginBench:
    """A bench where gitRepo is allowed and git makes a directory with a file in it."""
    bench = PluginBench(allow_git_repo=True)

    def git(arguments: Sequence[str]) -> ProgramResult | None:
        if arguments[1] == "clone":
            directory = arguments[4] if len(arguments) > 4 else "shop"
            where = PATH if directory in (".", "./.") else f"{PATH}/{directory}"
            bench.host.put_file(f"{where}/README", "hello")
        return None

    bench.host.program_result = git
    return bench


def calls(bench: PluginBench) -> list[tuple[str, ...]]:
    return [
        (directory, *call)
        for directory, call in zip(bench.host.program_directories, bench.host.programs_run, strict=True)
    ]


def test_it_is_refused_with_the_setting_and_the_usual_way_instead(bench: PluginBench) -> None:
    with pytest.raises(Refused, match="the setting allow_git_repo is off") as caught:
        bench.set_up(volume())
    assert "init container" in caught.value.next_step
    assert bench.host.programs_run == []
    assert bench.host.look(PATH) is None


def test_a_repository_is_cloned_once(allowed: PluginBench) -> None:
    allowed.set_up(volume())
    allowed.set_up(volume())
    assert calls(allowed) == [(PATH, "git", "clone", "--", REPOSITORY)]
    assert allowed.host.read_file(f"{PATH}/shop/README") == b"hello"


@pytest.mark.parametrize(
    ("directory", "where"), [("target", f"{PATH}/target"), (".", PATH), ("./.", PATH), ("", f"{PATH}/shop")]
)
def test_a_revision_is_checked_out_where_the_clone_lies(allowed: PluginBench, directory: str, where: str) -> None:
    allowed.set_up(volume(revision="v1.2", directory=directory))
    assert calls(allowed) == [
        (PATH, "git", "clone", "--", REPOSITORY, *([directory] if directory else [])),
        (where, "git", "checkout", "v1.2"),
        (where, "git", "reset", "--hard"),
    ]


def test_the_files_belong_to_the_pods_group_also_without_a_revision(allowed: PluginBench) -> None:
    allowed.set_up(volume(), fs_group=2000)
    assert allowed.owner(f"{PATH}/shop/README")[1] == 2000


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (volume("--upload-pack=touch /x"), "its repository '--upload-pack=touch /x' begins with '-'"),
        (volume(revision="-f"), "its revision '-f' begins with '-'"),
        (volume(directory="-d"), "its directory '-d' begins with '-'"),
        (volume(directory="../out"), "leads out of the volume"),
        (volume(directory="a/../../out"), "leads out of the volume"),
        (volume(directory="/etc"), "leads out of the volume"),
        (volume(directory="a/.git"), "git's own files"),
        (volume(directory="a/.GIT/hooks"), "git's own files"),
        (volume(revision="v1", directory="a/b"), "has several levels"),
        (volume(""), "names no repository"),
    ],
)
def test_what_git_could_misread_never_reaches_it(allowed: PluginBench, wanted: Volume, why: str) -> None:
    with pytest.raises(Refused, match=why):
        allowed.set_up(wanted)
    assert allowed.host.programs_run == []
    assert allowed.host.look(PATH) is None


def test_a_failed_clone_leaves_nothing_and_is_made_anew(allowed: PluginBench) -> None:
    working = allowed.host.program_result
    allowed.host.program_result = lambda _: ProgramResult(status=128, output="fatal: repository not found")
    with pytest.raises(Refused, match="exit status 128, 'fatal: repository not found'"):
        allowed.set_up(volume())
    assert allowed.host.look(PATH) is None
    allowed.host.program_result = working
    allowed.set_up(volume())
    assert allowed.host.read_file(f"{PATH}/shop/README") == b"hello"


def test_a_checkout_that_fails_takes_the_clone_with_it(allowed: PluginBench) -> None:
    clone = allowed.host.program_result
    assert clone is not None
    allowed.host.program_result = lambda call: ProgramResult(status=1) if call[1] == "checkout" else clone(call)
    with pytest.raises(Refused, match="git checkout failed"):
        allowed.set_up(volume(revision="gone"))
    assert allowed.host.look(PATH) is None


def test_a_clone_that_was_broken_off_is_made_anew(allowed: PluginBench) -> None:
    allowed.host.put_file(f"{PATH}/shop/half", "written")
    allowed.set_up(volume())
    assert allowed.host.names_in(f"{PATH}/shop") == ["README"]


def test_a_machine_without_git_is_told_so(allowed: PluginBench) -> None:
    def missing(arguments: Sequence[str]) -> ProgramResult:
        raise ProgramMissing(arguments[0])

    allowed.host.program_result = missing
    with pytest.raises(Refused, match="cannot run 'git', it is not installed"):
        allowed.set_up(volume())


def test_tear_down_removes_the_clone_and_both_marks(allowed: PluginBench) -> None:
    allowed.set_up(volume())
    allowed.tear_down(volume())
    assert allowed.host.look(PATH) is None
    assert allowed.host.names_in(f"{ROOT}/pods/{UID}/plugins/kubernetes.io~git-repo") == []
    assert allowed.host.names_in(f"{ROOT}/pods/{UID}/plugins/kubernetes.io~empty-dir") == []
