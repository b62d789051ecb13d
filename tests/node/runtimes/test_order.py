"""Order, restarts, exit status and logs of real containers."""

from __future__ import annotations

import pytest
from tests.node.runtimes.conftest import Pods, container, pod

pytestmark = pytest.mark.node

DATA = "volumeMounts: [{name: data, mountPath: /data}]"
VOLUMES = "  volumes: [{name: data, emptyDir: {}}]\n"


def test_init_containers_run_in_order_before_the_others(pods: Pods) -> None:
    init = [container(name, f"echo {name} >> /data/order", DATA) for name in ("one", "two")]
    pods.up(pod("web", container("main", "cat /data/order", DATA), spec=VOLUMES, init=init))
    assert pods.run("web") == (0, "[main] one\n[main] two\n", "")
    pods.assert_nothing_left()


def test_a_failing_init_container_is_the_end(pods: Pods) -> None:
    pods.up(pod("web", container("main", "echo never"), init=[container("first", "echo bad >&2; exit 9")]))
    assert pods.run("web") == (9, "", "[first] bad\n")
    pods.assert_nothing_left()


def test_the_status_is_the_first_that_is_not_zero_and_streams_are_kept_apart(pods: Pods) -> None:
    containers = [container("a", "echo fine"), container("b", "echo bad >&2; exit 4"), container("c", "exit 5")]
    pods.up(pod("web", *containers))
    assert pods.run("web") == (4, "[a] fine\n", "[b] bad\n")


def test_on_failure_a_container_is_started_again(pods: Pods) -> None:
    script = "if [ -e /data/once ]; then echo second; else echo first; touch /data/once; exit 1; fi"
    pods.up(pod("web", container("main", script, DATA), spec=f"  restartPolicy: OnFailure\n{VOLUMES}"))
    assert pods.run("web") == (0, "first\nsecond\n", "")
    pods.assert_nothing_left()


def test_a_sidecar_helps_and_is_ended_with_the_others(pods: Pods) -> None:
    helper = container("helper", "trap 'exit 0' TERM; echo help > /data/help; sleep 1000 & wait", DATA)
    init = [f"{helper}    restartPolicy: Always\n"]
    main = container("main", "until [ -s /data/help ]; do sleep 0.05; done; cat /data/help; exit 2", DATA)
    pods.up(pod("web", main, spec=VOLUMES, init=init))
    assert pods.run("web") == (2, "[main] help\n", "")
    pods.assert_nothing_left()


def test_long_lines_and_ends_without_one_are_shown_whole(pods: Pods) -> None:
    script = "head -c 40000 /dev/zero | tr '\\0' x; echo; printf 'no end'"
    pods.up(pod("web", container("main", script)))
    assert pods.run("web") == (0, f"{'x' * 40000}\nno end\n", "")


def test_an_image_that_is_not_there_is_named_and_nothing_is_left(pods: Pods) -> None:
    manifest = pod("web", container("main", "exit 0", "imagePullPolicy: Never")).replace("busybox:test", "none:1")
    pods.up(manifest)
    status, out, err = pods.run("web")
    assert (status, out) == (1, "")
    assert "cannot use image 'localhost/none:1': it is not there, and imagePullPolicy is Never" in err
    pods.assert_nothing_left()


def test_a_pod_whose_volumes_do_not_come_is_not_started(pods: Pods) -> None:
    pods.up(
        pod(
            "web",
            container("main", "exit 0", DATA),
            spec="  volumes: [{name: data, secret: {secretName: none}}]\n",
        )
    )
    status, out, err = pods.run("web", "--timeout", "100ms")
    assert (status, out) == (1, "")
    assert 'secret "none" not found' in err
    pods.assert_nothing_left()


def test_a_pod_that_nobody_knows_is_not_started(pods: Pods) -> None:
    pods.up()
    status, out, err = pods.run("none")
    assert (status, out) == (1, "")
    assert "cannot find pod 'none'" in err
