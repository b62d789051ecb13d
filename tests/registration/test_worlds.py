"""What is to be done about sockets, decided without any."""

from __future__ import annotations

from mooring.registration.worlds import (
    ActualPlugin,
    DesiredSocket,
    DesiredSockets,
    Identity,
    Incarnation,
    Offered,
    Register,
    Unregister,
    changed_paths,
    is_at_or_below,
    observed,
    plan,
)

PATH = "/registry/a.sock"
OFFERED = Offered(type="CSIPlugin", name="a", endpoint="/a.sock", versions=("1.0.0",))


def file(inode: int, modified_at: float = 1.0) -> Identity:
    return Identity(device=1, inode=inode, modified_at=modified_at)


def wanted(incarnation: int) -> DesiredSocket:
    return DesiredSocket(path=PATH, incarnation=Incarnation(incarnation), identity=file(1))


def there(incarnation: int) -> ActualPlugin:
    return ActualPlugin(path=PATH, incarnation=Incarnation(incarnation), offered=OFFERED)


def incarnations(sockets: DesiredSockets) -> dict[str, int]:
    return {path: int(socket.incarnation) for path, socket in sockets.sockets.items()}


def test_nothing_is_done_where_nothing_is() -> None:
    assert plan(None, None) == []


def test_a_socket_is_registered() -> None:
    assert plan(wanted(1), None) == [Register(wanted(1))]


def test_a_registered_socket_is_left_alone() -> None:
    assert plan(wanted(1), there(1)) == []


def test_a_plugin_without_its_socket_is_unregistered() -> None:
    assert plan(None, there(1)) == [Unregister(there(1))]


def test_a_socket_made_anew_is_unregistered_and_only_then_registered() -> None:
    assert plan(wanted(2), there(1)) == [Unregister(there(1))]
    assert plan(wanted(2), None) == [Register(wanted(2))]


def test_an_operation_is_about_the_path_of_its_socket() -> None:
    assert (Register(wanted(1)).path, Unregister(there(1)).path) == (PATH, PATH)


def test_every_new_socket_has_an_incarnation_of_its_own() -> None:
    first = observed(DesiredSockets(), {"/b": file(2), "/a": file(1)})
    assert incarnations(first) == {"/a": 1, "/b": 2}


def test_a_socket_that_is_still_the_same_keeps_its_incarnation() -> None:
    first = observed(DesiredSockets(), {PATH: file(1)})
    assert observed(first, {PATH: file(1)}) == first


def test_another_inode_is_another_socket() -> None:
    first = observed(DesiredSockets(), {PATH: file(1)})
    assert incarnations(observed(first, {PATH: file(2)})) == {PATH: 2}


def test_an_inode_that_was_used_again_is_another_socket() -> None:
    first = observed(DesiredSockets(), {PATH: file(1)})
    assert incarnations(observed(first, {PATH: file(1, modified_at=2.0)})) == {PATH: 2}


def test_a_socket_that_looks_the_same_but_was_gone_is_another_one() -> None:
    first = observed(DesiredSockets(), {PATH: file(1)})
    assert incarnations(observed(first, {PATH: file(1)}, gone={PATH})) == {PATH: 2}


def test_a_socket_whose_directory_was_gone_is_another_one() -> None:
    first = observed(DesiredSockets(), {PATH: file(1)})
    assert incarnations(observed(first, {PATH: file(1)}, gone={"/registry"})) == {PATH: 2}


def test_incarnations_are_not_used_again() -> None:
    first = observed(DesiredSockets(), {PATH: file(1)})
    gone = observed(first, {})
    assert (incarnations(gone), incarnations(observed(gone, {PATH: file(1)}))) == ({}, {PATH: 2})


def test_a_look_at_one_kind_of_sockets_leaves_the_other_kind_alone() -> None:
    registry = observed(DesiredSockets(), {"/registry/a": file(1)})
    both = observed(registry, {"/static": file(2)}, static=True)
    assert sorted(both.sockets) == ["/registry/a", "/static"]
    assert sorted(observed(both, {}).sockets) == ["/static"]
    assert sorted(observed(both, {}, static=True).sockets) == ["/registry/a"]


def test_a_path_belongs_to_the_kind_that_had_it_first() -> None:
    first = observed(DesiredSockets(), {"/static": file(1)}, static=True)
    assert observed(first, {"/static": file(1)}) == first


def test_paths_change_when_their_socket_comes_goes_or_is_made_anew() -> None:
    before = observed(DesiredSockets(), {"/gone": file(1), "/same": file(2), "/anew": file(3)})
    after = observed(before, {"/same": file(2), "/anew": file(4), "/new": file(5)})
    assert changed_paths(before, after) == ["/anew", "/gone", "/new"]


def test_a_path_is_at_or_below_itself_and_the_directories_above_it() -> None:
    assert is_at_or_below("/a/b", {"/a/b"})
    assert is_at_or_below("/a/b", {"/"})
    assert not is_at_or_below("/a/b", {"/a/bc", "/b"})
    assert not is_at_or_below("/a/b", ())
