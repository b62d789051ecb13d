"""All rows of the table, with their goals and what they mean."""

from __future__ import annotations

from bench.rows import Goal, Row
from bench.scenarios import DRIVER, PODS, PYTHON, SINGLES

TIMERS, WORK = "timers", "work"
VOLUMES = 4 * PODS
KUBELET_AT_100_CSI = 1.20
"""Seconds: the kubelet's own time to which the goals for 100 CSI volumes refer."""

ONE_POD = (
    Row(
        says="one pod of 4 volumes: ready, as its waiter sees it",
        scenario=f"single {SINGLES}",
        figure="wait",
        unit="ms",
        won_over=TIMERS,
        accepted=Goal(times=20),
        aim=Goal(times=60, most=0.005),
        explains="From handing the pod over to the return of `WaitForAttachAndMount`. The kubelet's waiter looks "
        "every 300 ms, and two loops that run every 100 ms lie before it; mooring's waiter is woken by the "
        "last mount.",
    ),
    Row(
        says="the same: ready in fact",
        scenario=f"single {SINGLES}",
        figure="ready",
        unit="ms",
        won_over=TIMERS,
        explains="When the volumes were there, looked at every millisecond: without the kubelet's waiter, but still "
        "with its two loops. mooring's figure is that of its waiter.",
    ),
    Row(
        says="one pod with a CSI volume: ready, as its waiter sees it",
        scenario=f"csi_single {SINGLES}",
        figure="wait",
        unit="ms",
        floor=DRIVER,
        won_over=TIMERS,
        accepted=Goal(times=12),
        aim=Goal(above_floor=0.003),
        explains="Staged and published by the same driver for both; the floor is that driver alone, called over one "
        "open channel with the two calls that nobody can leave out.",
    ),
    Row(
        says="one pod of 4 volumes: unmounted, as its waiter sees it",
        scenario=f"single {SINGLES}",
        figure="gone",
        unit="ms",
        won_over=TIMERS,
        accepted=Goal(times=20),
        aim=Goal(times=60, most=0.005),
        explains="From the removal of the pod to the return of `WaitForUnmount`, which in the kubelet also looks "
        "every 300 ms. The floor removes the pod's directories too.",
    ),
    Row(
        says="the same: unmounted in fact",
        scenario=f"single {SINGLES}",
        figure="unmounted",
        unit="ms",
        won_over=TIMERS,
        explains="When nothing of the pod was mounted any more.",
    ),
)

MANY_PODS = (
    Row(
        says=f"{PODS:,} pods × 4 volumes at once",
        scenario=f"bulk {PODS}",
        figure="up",
        unit="s",
        won_over=WORK,
        accepted=Goal(times=3),
        aim=Goal(times=5),
        explains="All pods handed over and all waits begun; until the last wait returned. The kubelet starts "
        "mount(8) 3,000 times and looks through all volumes for each waiter; mooring makes the system call "
        "and indexes by pod.",
    ),
    Row(
        says="the same, against the loop in Python",
        scenario=f"bulk {PODS}",
        figure="up",
        unit="s",
        floor=PYTHON,
        won_over=WORK,
        accepted=Goal(of_floor=3),
        aim=Goal(of_floor=2),
        explains="What mooring takes longer than the bare loop in the same language is the price of planning, of "
        "both worlds, of history on disk, metrics and events.",
    ),
    Row(
        says="the same, processor time per volume",
        scenario=f"bulk {PODS}",
        figure="up_cpu_per_volume",
        unit="ms",
        won_over=WORK,
        accepted=Goal(times=4),
        aim=Goal(times=8),
        explains="User and system time, with that of all programs that were run.",
    ),
    Row(
        says="the same, when the median pod was ready",
        scenario=f"bulk {PODS}",
        figure="median_share",
        unit="%",
        won_over=WORK,
        accepted=Goal(most=0.60),
        aim=Goal(most=0.52),
        explains="As a share of the whole time. mooring finishes pods in the order they came, so about half of them "
        "are ready at half time: a little less, for the process that shares the work joins when the burst has "
        "begun; the kubelet begins with all at once, and finishes all in the end.",
    ),
    Row(
        says=f"cost of one of {VOLUMES:,} volumes, over that of one of 100",
        scenario=f"bulk {PODS}",
        figure="up_per_volume",
        unit="times",
        over=("bulk 25", "up_per_volume"),
        won_over=WORK,
        accepted=Goal(most=1.25),
        aim=Goal(most=1.1),
        explains="1.00× is flat. The kubelet's 100 volumes take as long as its timers, which makes its own ratio "
        "look better than its work: see the plot.",
    ),
    Row(
        says=f"{PODS:,} pods removed, all unmounted",
        scenario=f"bulk {PODS}",
        figure="down",
        unit="s",
        won_over=WORK,
        accepted=Goal(times=3),
        aim=Goal(times=5),
        explains="Until `WaitForAllPodsUnmount` returned. mooring removes pods' directories on the way, as the floor"
        " does; the kubelet leaves them to a later clean-up that is not measured.",
    ),
    Row(
        says="the same, and all directories gone",
        scenario=f"bulk {PODS}",
        figure="swept",
        unit="s",
        explains="mooring looks for foreign mounts and files before it removes anything.",
    ),
    Row(
        says="100 CSI volumes at once",
        scenario="csi_bulk 100",
        figure="up",
        unit="s",
        floor=DRIVER,
        won_over=WORK,
        accepted=Goal(times=KUBELET_AT_100_CSI / 0.95),
        aim=Goal(times=KUBELET_AT_100_CSI / 0.80),
        explains="One pod for each; the driver is the same for all. The kubelet connects anew for every call, and "
        "begins what comes next at its loops' next turn.",
    ),
)

LASTING = (
    Row(
        says=f"restart over {VOLUMES:,} mounted volumes: all known to be right",
        scenario=f"restart {PODS}",
        figure="seconds",
        unit="s",
        won_over=WORK,
        accepted=Goal(times=1.5),
        aim=Goal(times=2.6),
        explains="From the start of the manager's loops, pods being known, to the return of all waits; the start of "
        "the process is in neither figure. Both set every volume up once more, which compares every byte of"
        " its content and touches no mount. About 0.1 s of the kubelet's time is its first tick.",
    ),
    Row(
        says=f"{VOLUMES:,} orphaned volumes cleaned up after a restart",
        scenario=f"orphans {PODS}",
        figure="seconds",
        unit="s",
        won_over=WORK,
        accepted=Goal(times=3),
        aim=Goal(times=5),
        explains="A process that no pod is told of, until no volume is left. mooring removes pods' directories on "
        "the way, as the floor does; the kubelet leaves them to a later clean-up that is not measured.",
    ),
    Row(
        says="the same, and all directories gone",
        scenario=f"orphans {PODS}",
        figure="swept",
        unit="s",
        explains="As above, with the directories of all pods.",
    ),
    Row(
        says=f"idle at {VOLUMES:,} volumes, processor time per minute",
        scenario=f"idle {PODS}",
        figure="cpu_per_minute",
        unit="ms",
        won_over=TIMERS,
        accepted=Goal(times=30),
        aim=Goal(times=140),
        explains="A real daemon, in a window that has its full resync, once a minute. The kubelet compares all "
        "volumes ten times a second. Its look at all content, every 60 to 90 s, is not in the figure; "
        "mooring's, every 10 minutes, neither.",
    ),
    Row(
        says="the same, over that with no volumes",
        scenario=f"idle {PODS}",
        figure="cpu_per_minute",
        unit="times",
        over=(f"idle {PODS}", "cpu_per_minute_empty"),
        won_over=WORK,
        accepted=Goal(most=2.0),
        explains="What a volume costs that nobody touches, in terms of what a daemon costs that has nothing to do.",
    ),
    Row(
        says=f"memory a volume, at {VOLUMES:,}",
        scenario=f"bulk {PODS}",
        figure="bytes_per_volume",
        unit="KB",
        accepted=Goal(most=8e3),
        aim=Goal(most=5e3),
        explains="mooring: growth of the resident set, waits, history and metrics included. The kubelet: growth of "
        "the heap alone, which is less than its resident set grows.",
    ),
    Row(
        says=f"resident set at {VOLUMES:,} volumes",
        scenario=f"idle {PODS}",
        figure="resident",
        unit="MB",
        accepted=Goal(most=80e6),
        aim=Goal(most=60e6),
        explains="The whole daemon, with its store, its HTTP server and the manifests' objects; the kubelet's "
        "manager after it has given free pages back.",
    ),
    Row(
        says="a ConfigMap changes: in one pod that shows it",
        scenario="refresh 1",
        figure="one",
        unit="ms",
        won_over=TIMERS,
        accepted=Goal(most=0.050),
        aim=Goal(most=0.010),
        explains="From the change to the first volume's new bytes. The kubelet's figure is computed from its "
        "constants, not measured: it looks at a pod's content when it syncs the pod, every 60 to 90 s, plus"
        " its loops' turns; its median is shown.",
    ),
    Row(
        says="a ConfigMap changes: p99 of the 500 volumes that show it",
        scenario="refresh 250",
        figure="p99",
        unit="ms",
        won_over=TIMERS,
        accepted=Goal(most=1.0),
        explains="250 pods with a configMap and a projected volume each. Volumes that do not use the object are not "
        "looked at. The kubelet's figure is the 99th percentile from its constants.",
    ),
)

OTHER = (
    Row(
        says="fsGroup, 100,101 entries: all change",
        scenario="fs_group",
        figure="change",
        unit="s",
        won_over=WORK,
        accepted=Goal(times=1.3),
        aim=Goal(times=1.6),
        explains="Group and mode of every entry. Several processes share a large tree; the kubelet walks it in one "
        "thread, and so does the floor, which makes the kubelet's calls in C.",
    ),
    Row(
        says="fsGroup, 100,101 entries: nothing to change",
        scenario="fs_group",
        figure="nothing",
        unit="s",
        won_over=WORK,
        accepted=Goal(times=2.2),
        aim=Goal(times=4),
        explains="The kubelet writes every entry again; mooring and the floor look, and leave alone what is right.",
    ),
    Row(
        says=f"`mooring get pods`, {PODS:,} pods",
        scenario=f"get {PODS}",
        figure="seconds",
        unit="ms",
        floor=PYTHON,
        accepted=Goal(most=0.100),
        aim=Goal(most=0.060),
        explains="From the start of the process to its end, by a real daemon. The floor is the start of an "
        "interpreter that does nothing.",
    ),
)

ROWS = (*ONE_POD, *MANY_PODS, *LASTING, *OTHER)
