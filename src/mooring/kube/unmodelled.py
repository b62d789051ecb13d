"""Fields that Kubernetes has and mooring has no use for: read over in silence, so that only real mistakes are named."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mooring.kube.objects.meta import Condition, ObjectMeta
from mooring.kube.objects.node import Event, NodeSpec, NodeStatus
from mooring.kube.objects.pod import (
    Container,
    ContainerSecurityContext,
    ContainerStatus,
    EnvironmentSource,
    Namespace,
    PodSecurityContext,
    PodSpec,
    PodStatus,
    ServiceAccount,
)
from mooring.kube.objects.storage import (
    CSIDriverSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeStatus,
)

_POD_SPEC = """
    activeDeadlineSeconds affinity automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks hostAliases
    hostIPC hostPID hostname hostnameOverride nodeSelector os preemptionPolicy priority priorityClassName
    readinessGates resourceClaims runtimeClassName schedulerName schedulingGates schedulingGroup setHostnameAsFQDN
    shareProcessNamespace subdomain topologySpreadConstraints workloadRef
"""
_POD_STATUS = """
    allocatedResources extendedResourceClaimStatus hostIP hostIPs nominatedNodeName observedGeneration podIPs qosClass
    resize resourceClaimStatuses resources startTime
"""
_CONTAINER_STATUS = """
    allocatedResources allocatedResourcesStatus containerID image imageID lastState ready resources restartCount started
    stopSignal user volumeMounts
"""
_CONTAINER = """
    lifecycle livenessProbe ports readinessProbe resizePolicy restartPolicyRules startupProbe stdin
    stdinOnce targetContainerName terminationMessagePath terminationMessagePolicy tty
"""
_CONTAINER_SECURITY_CONTEXT = """
    allowPrivilegeEscalation appArmorProfile capabilities procMount runAsNonRoot seccompProfile windowsOptions
"""
_POD_SECURITY_CONTEXT = """
    appArmorProfile runAsNonRoot seccompProfile supplementalGroupsPolicy sysctls windowsOptions
"""
_NODE_STATUS = "config daemonEndpoints declaredFeatures features images phase runtimeHandlers"

_TABLE: Mapping[type[msgspec.Struct], str] = {
    ObjectMeta: "clusterName managedFields selfLink",
    PodSpec: _POD_SPEC,
    PodStatus: _POD_STATUS,
    ContainerStatus: _CONTAINER_STATUS,
    Container: _CONTAINER,
    EnvironmentSource: "fileKeyRef",
    ContainerSecurityContext: _CONTAINER_SECURITY_CONTEXT,
    PodSecurityContext: _POD_SECURITY_CONTEXT,
    Namespace: "spec status",
    ServiceAccount: "automountServiceAccountToken",
    NodeSpec: "configSource externalID podCIDR podCIDRs",
    NodeStatus: _NODE_STATUS,
    Event: "related series",
    Condition: "lastHeartbeatTime observedGeneration",
    PersistentVolumeStatus: "lastPhaseTransitionTime",
    PersistentVolumeClaimStatus: "currentVolumeAttributesClassName modifyVolumeStatus",
    CSIDriverSpec: "preventPodSchedulingIfMissing",
}

UNMODELLED: Mapping[type[msgspec.Struct], frozenset[str]] = {
    owner: frozenset(names.split()) for owner, names in _TABLE.items()
}
"""Field names by the value they would belong to. Nothing below such a field is looked at."""
