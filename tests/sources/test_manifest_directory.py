"""A directory of manifests as a source: what is written there is in the store, at once and in one piece."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.sources.conftest import CountingStore, config_map, feeding

from mooring.kube.objects.kinds import CONFIG_MAP
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import ConfigMap


async def test_everything_is_in_the_store_when_the_source_says_it_was_heard(place: Path) -> None:
    (place / "a.yaml").write_text(config_map("a"))
    (place / "sub").mkdir()
    (place / "sub" / "b.yml").write_text(config_map("b"))
    (place / "c.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "v"}})
    )
    async with feeding(place) as fed:
        assert fed.names() == ["ConfigMap/default/a", "ConfigMap/default/b", "ConfigMap/default/c"]
        assert fed.store.transactions == 1


async def test_an_empty_directory_is_heard_too(place: Path) -> None:
    async with feeding(place) as fed:
        assert (fed.names(), fed.store.transactions, fed.source.findings) == ([], 0, ())


async def test_files_that_come_change_and_go_are_followed(place: Path) -> None:
    async with feeding(place) as fed:
        file = place / "a.yaml"
        file.write_text(config_map("a"))
        await fed.until_names("ConfigMap/default/a")
        file.write_text(config_map("a", "2"))
        await fed.until(lambda: fed.store.transactions == 2)
        assert await fed.data("a") == {"key": "2"}
        file.unlink()
        await fed.until_names()


async def test_a_renamed_file_keeps_its_objects(place: Path) -> None:
    (place / "a.yaml").write_text(config_map("a"))
    async with feeding(place) as fed:
        before = await fed.store.get(CONFIG_MAP, "default", "a")
        (place / "a.yaml").rename(place / "b.yaml")
        await fed.until(lambda: list(fed.store.origins().values()) == [f"file:{place}/b.yaml"])
        assert (await fed.store.get(CONFIG_MAP, "default", "a")).metadata.uid == before.metadata.uid


async def test_a_file_moved_in_over_another_is_read(place: Path) -> None:
    (place / "a.yaml").write_text(config_map("a"))
    async with feeding(place) as fed:
        (place / ".a.yaml.tmp").write_text(config_map("a", "2"))
        (place / ".a.yaml.tmp").rename(place / "a.yaml")
        await fed.until(lambda: fed.store.transactions == 2)
        assert await fed.data("a") == {"key": "2"}


async def test_a_sub_directory_made_later_is_watched(place: Path) -> None:
    async with feeding(place) as fed:
        deep = place / "later" / "deep"
        deep.mkdir(parents=True)
        (deep / "a.yaml").write_text(config_map("a"))
        await fed.until_names("ConfigMap/default/a")
        (deep / "b.yaml").write_text(config_map("b"))
        await fed.until_names("ConfigMap/default/a", "ConfigMap/default/b")


async def test_hidden_and_other_names_are_left_out(place: Path) -> None:
    for name in (".hidden.yaml", "notes.txt", "a.yaml~", "a.yaml.swp", "README"):
        (place / name).write_text(config_map("x"))
    (place / ".git").mkdir()
    (place / ".git" / "a.yaml").write_text(config_map("y"))
    async with feeding(place) as fed:
        assert fed.names() == []


async def test_a_single_file_may_be_named_whatever_it_is_called(place: Path) -> None:
    (place / "one.txt").write_text(config_map("a"))
    (place / "other.yaml").write_text(config_map("b"))
    async with feeding(place, place / "one.txt") as fed:
        assert fed.names() == ["ConfigMap/default/a"]
        (place / "one.txt").write_text(config_map("c"))
        await fed.until_names("ConfigMap/default/c")


async def test_a_linked_file_is_followed_where_it_leads(place: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "a.yaml"
    target.write_text(config_map("a"))
    (place / "link.yaml").symlink_to(target)
    async with feeding(place) as fed:
        assert fed.names() == ["ConfigMap/default/a"]
        target.write_text(config_map("a", "2"))
        await fed.until(lambda: fed.store.transactions == 2)
        assert await fed.data("a") == {"key": "2"}


async def test_a_directory_linked_into_itself_is_read_once(place: Path) -> None:
    (place / "a.yaml").write_text(config_map("a"))
    (place / "loop").symlink_to(place)
    async with feeding(place) as fed:
        assert (fed.names(), fed.source.findings) == (["ConfigMap/default/a"], ())


async def test_a_config_map_volume_can_be_the_directory_of_manifests(place: Path) -> None:
    """Its files are links through `..data`, switched by one rename."""
    for version in ("1", "2"):
        (place / f"..{version}").mkdir()
        (place / f"..{version}" / "a.yaml").write_text(config_map("a", version))
    (place / "..data").symlink_to("..1")
    (place / "a.yaml").symlink_to("..data/a.yaml")
    async with feeding(place) as fed:
        (place / "..new").symlink_to("..2")
        os.rename(place / "..new", place / "..data")
        await fed.until(lambda: fed.store.transactions == 2)
        assert await fed.data("a") == {"key": "2"}


# -- mistakes ------------------------------------------------------------------------------------------------------
async def test_a_broken_file_keeps_its_last_good_objects_and_is_a_finding(place: Path) -> None:
    file = place / "a.yaml"
    file.write_text(config_map("a"))
    async with feeding(place) as fed:
        file.write_text(config_map("a").replace("key: '1'", "key: 1"))
        await fed.until_found(f"{file}:6: data.key")
        assert (fed.names(), await fed.data("a")) == (["ConfigMap/default/a"], {"key": "1"})
        file.write_text(config_map("a", "2"))
        await fed.until(lambda: fed.source.findings == ())
        assert await fed.data("a") == {"key": "2"}


async def test_a_file_broken_while_nobody_looked_keeps_what_the_store_has_of_it(place: Path, tmp_path: Path) -> None:
    file = place / "a.yaml"
    file.write_text(config_map("a"))
    async with feeding(place, store=CountingStore(tmp_path / "objects.db")) as fed:
        await fed.store.close()
    file.write_text("kind: [")
    async with feeding(place, store=CountingStore(tmp_path / "objects.db")) as fed:
        assert fed.names() == ["ConfigMap/default/a"]
        assert [finding.where for finding in fed.source.findings] == [f"{file}:2"]
        await fed.store.close()


async def test_a_file_removed_while_nobody_looked_takes_its_objects_along(place: Path, tmp_path: Path) -> None:
    for name in "ab":
        (place / f"{name}.yaml").write_text(config_map(name))
    async with feeding(place, store=CountingStore(tmp_path / "objects.db")) as fed:
        await fed.store.close()
    (place / "a.yaml").unlink()
    async with feeding(place, store=CountingStore(tmp_path / "objects.db")) as fed:
        assert fed.names() == ["ConfigMap/default/b"]
        await fed.store.close()


async def test_an_object_in_two_files_counts_once_and_is_a_finding(place: Path) -> None:
    (place / "a.yaml").write_text(config_map("x", "first"))
    (place / "b.yaml").write_text(config_map("x", "second"))
    async with feeding(place) as fed:
        assert await fed.data("x") == {"key": "first"}
        (finding,) = fed.source.findings
        assert (finding.kind, finding.where) == ("manifest", f"{place}/b.yaml")
        assert f"ConfigMap default/x is written in {place}/a.yaml as well; that one counts" in finding.what
        (place / "a.yaml").unlink()
        await fed.until(lambda: fed.source.findings == ())
        assert await fed.data("x") == {"key": "second"}


async def test_an_object_twice_in_one_file_is_a_finding_with_its_line(place: Path) -> None:
    (place / "a.yaml").write_text(config_map("x", "first") + "---\n" + config_map("x", "second"))
    async with feeding(place) as fed:
        assert await fed.data("x") == {"key": "first"}
        (finding,) = fed.source.findings
        assert finding.where == f"{place}/a.yaml:8"
        assert "more than once; the first counts" in finding.what


async def test_a_directory_that_vanishes_keeps_everything_and_is_a_finding(place: Path) -> None:
    (place / "a.yaml").write_text(config_map("a"))
    async with feeding(place) as fed:
        place.rename(place.with_name("gone"))
        await fed.until_found("there is no such file or directory; what it said before stays")
        assert fed.names() == ["ConfigMap/default/a"]


async def test_a_named_file_that_vanishes_keeps_its_objects_and_comes_back(place: Path) -> None:
    file = place / "a.yaml"
    file.write_text(config_map("a"))
    async with feeding(place, file) as fed:
        file.unlink()
        await fed.until_found("what it said before stays")
        assert fed.names() == ["ConfigMap/default/a"]
        file.write_text(config_map("b"))
        await fed.until_names("ConfigMap/default/b")
        assert fed.source.findings == ()


async def test_an_immutable_config_map_cannot_be_changed_and_the_finding_stays(place: Path) -> None:
    file = place / "a.yaml"
    file.write_text(config_map("a", immutable=True))
    async with feeding(place) as fed:
        file.write_text(config_map("a", "2", immutable=True))
        await fed.until_found(
            "ConfigMap default/a cannot change: it cannot be changed, because the object is immutable"
        )
        await fed.read_again()
        assert [finding.where for finding in fed.source.findings] == [str(file)]
        assert await fed.data("a") == {"key": "1"}
        file.write_text(config_map("a", immutable=True))
        await fed.until(lambda: fed.source.findings == ())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_that_may_not_be_read_is_a_finding(place: Path) -> None:
    (place / "a.yaml").write_text(config_map("a"))
    (place / "a.yaml").chmod(0)
    async with feeding(place) as fed:
        assert "Permission denied" in fed.source.findings[0].what


async def test_a_link_to_nowhere_is_a_finding(place: Path) -> None:
    (place / "a.yaml").symlink_to("nowhere")
    async with feeding(place) as fed:
        assert [finding.what for finding in fed.source.findings] == ["cannot be read: No such file or directory"]


# -- beside other sources of objects -------------------------------------------------------------------------------
async def test_objects_that_were_applied_survive(place: Path) -> None:
    store = CountingStore()
    applied = ConfigMap(metadata=ObjectMeta(name="mine", namespace="default"))
    await store.apply_all(put=[(applied, "apply")])
    (place / "a.yaml").write_text(config_map("a"))
    async with feeding(place, store=store) as fed:
        (place / "a.yaml").unlink()
        await fed.until_names("ConfigMap/default/mine")


async def test_what_was_applied_over_a_file_lasts_until_the_file_changes(place: Path) -> None:
    file = place / "a.yaml"
    file.write_text(config_map("a"))
    async with feeding(place) as fed:
        changed = ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"key": "applied"})
        await fed.store.apply_all(put=[(changed, "apply")])
        await fed.read_again()
        assert await fed.data("a") == {"key": "applied"}
        file.write_text(config_map("a", "3"))
        await fed.until(lambda: fed.store.origins() == {("ConfigMap", "default", "a"): f"file:{file}"})
        assert await fed.data("a") == {"key": "3"}


async def test_what_was_deleted_stays_deleted_until_its_file_changes(place: Path) -> None:
    (place / "a.yaml").write_text(config_map("a"))
    async with feeding(place) as fed:
        await fed.store.delete(CONFIG_MAP, "default", "a")
        await fed.read_again()
        assert fed.names() == []
        (place / "a.yaml").write_text(config_map("a", "2"))
        await fed.until_names("ConfigMap/default/a")


async def test_a_change_of_many_files_is_one_transaction(place: Path, tmp_path: Path) -> None:
    async with feeding(place) as fed:
        batch = tmp_path / "batch"
        batch.mkdir()
        for number in range(20):
            (batch / f"{number}.yaml").write_text(config_map(f"m{number}"))
        batch.rename(place / "batch")
        await fed.until(lambda: len(fed.names()) == 20)
        assert fed.store.transactions == 1
