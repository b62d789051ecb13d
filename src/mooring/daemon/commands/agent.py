"""`mooring agent`: a node of a cluster, fed by its API server."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from mooring.controllers.node_object import Taint
from mooring.daemon.options import detach_option, root_option, settings_of, timeout_option
from mooring.daemon.process import command_line, detach, run_in_foreground
from mooring.errors import InvalidInput, Refused

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@click.command()
@click.option(
    "--kubeconfig",
    metavar="FILE",
    envvar="KUBECONFIG",
    help="How to reach the API server, and as whom [as a pod of the cluster finds it].",
)
@click.option("--node", metavar="NAME", help="Name of this node [the host name].")
@root_option
@click.option(
    "--manifests", metavar="PATH", multiple=True, help="Pods of this node's own, beside the cluster's; may be repeated."
)
@click.option(
    "--register-node", is_flag=True, help="Make the Node and keep it Ready; delete pods when they have ended."
)
@click.option(
    "--node-label", "labels", metavar="KEY=VALUE", multiple=True, help="Of a Node that is made; may be repeated."
)
@click.option(
    "--node-taint", "taints", metavar="KEY=VALUE:EFFECT", multiple=True, help="Of a Node that is made; may be repeated."
)
@click.option(
    "--cri", metavar="SOCKET", default="", help="A container runtime that tells which pods' containers have ended."
)
@detach_option
@timeout_option()
@click.pass_context
def agent(
    context: click.Context,
    kubeconfig: str | None,
    node: str | None,
    root: str | None,
    manifests: Sequence[str],
    register_node: bool,
    labels: Sequence[str],
    taints: Sequence[str],
    cri: str,
    detached: bool,
    timeout: float,
) -> None:
    """Make the volumes of all pods that are bound to this node in a cluster real, and keep them so.

    Works with the API server that the kubeconfig names, with the rights of a kubelet. Runs until SIGTERM or Ctrl-C;
    volumes stay in place then, and are found again.
    """
    from mooring.kube import kubeconfig as kubeconfigs  # noqa: PLC0415 - as below, not for --help

    settings = settings_of(context, root, node_name=node)
    if os.geteuid() != 0:
        raise Refused("cannot mount volumes", why="only root may mount on this machine", next_step="Run it as root")
    paths = [os.path.abspath(path) for path in manifests]
    for path in paths:
        if not os.path.exists(path):
            raise InvalidInput(f"cannot read {path!r}", why="there is no such file or directory", place="--manifests")
    node_labels, node_taints = dict(map(_label, labels)), list(map(_taint, taints))
    if (labels or taints) and not register_node:
        raise InvalidInput("cannot label a Node", why="it is not made here", next_step="Add --register-node")
    access = kubeconfigs.load(kubeconfig) if kubeconfig else kubeconfigs.in_cluster(os.environ)
    if detached:
        flags = ["--kubeconfig", os.path.abspath(kubeconfig)] if kubeconfig else []
        flags += ["--node", node] if node else []
        flags += [word for path in paths for word in ("--manifests", path)]
        flags += [word for label in labels for word in ("--node-label", label)]
        flags += [word for taint in taints for word in ("--node-taint", taint)]
        flags += [*(["--register-node"] if register_node else []), *(["--cri", cri] if cri else [])]
        detach(settings, command_line(context, settings, "agent", *flags), timeout)
        return
    from mooring.daemon.agent import assembled  # noqa: PLC0415 - the whole daemon
    from mooring.daemon.agent_parts import Options, Registration  # noqa: PLC0415

    registration = Registration(labels=node_labels, taints=node_taints) if register_node else None
    options = Options(access=access, manifests=paths, cri=cri, registration=registration)
    run_in_foreground(settings, lambda host: assembled(settings, host, options))


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise InvalidInput(f"cannot read {text!r}", why="KEY=VALUE is expected", place="--node-label")
    return key, value


def _taint(text: str) -> Taint:
    rest, colon, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    if not key or not colon or effect not in _EFFECTS:
        why = f"KEY=VALUE:EFFECT is expected, with one of {', '.join(_EFFECTS)}"
        raise InvalidInput(f"cannot read {text!r}", why=why, place="--node-taint")
    return Taint(key=key, value=value, effect=effect)
