package core

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

func nodes() builtin.Row[*corev1.Node] {
	return builtin.Row[*corev1.Node]{
		Names:   builtin.Names{Plural: "nodes", Kind: "Node", ShortNames: []string{"no"}},
		Storage: builtin.Storage{Path: "minions"},
		Strategy: builtin.Strategy[*corev1.Node]{
			Default: defaultNode,
			GatedFields: []builtin.GatedFields[*corev1.Node]{
				{Gate: feature.InPlacePodVerticalScalingSchedulerPreemption, Visit: podPreemption},
				{Gate: feature.KubeletInUserNamespace, Visit: userNamespaces},
			},
			PrepareForCreate: prepareNode, PrepareForUpdate: prepareNodeUpdate,
			Validate: validateNode, Warnings: nodeWarnings,
		},
		// Kubelets register nodes together with their status.
		Status: &builtin.Status[*corev1.Node]{AllowOnCreate: true, PrepareForUpdate: prepareNodeStatus, Validate: validateNodeStatus},
		FieldSelectors: builtin.FieldSelectors[*corev1.Node]{
			Keys: []string{"spec.unschedulable"}, ConvertLabel: fieldLabel("metadata.name", "spec.unschedulable"),
			Values: func(node *corev1.Node) fields.Set {
				return fields.Set{"spec.unschedulable": strconv.FormatBool(node.Spec.Unschedulable)}
			},
		},
		Columns: nodeColumns(), Subresources: []builtin.Subresource{nodeProxy()},
	}
}

// prepareNode drops the fields of dynamic kubelet configuration, a feature that has been removed.
func prepareNode(op *builtin.Operation, node *corev1.Node) {
	prepareNodeUpdate(op, node, &corev1.Node{})
	prepareNodeStatus(op, node, &corev1.Node{})
}

func prepareNodeUpdate(op *builtin.Operation, node, old *corev1.Node) {
	if old.Spec.ConfigSource == nil {
		node.Spec.ConfigSource = nil
	}
}

func podPreemption(u *builtin.FieldVisitor, node *corev1.Node) {
	builtin.VisitField(u, &node.Spec.PodPreemptionPolicy)
}

func userNamespaces(u *builtin.FieldVisitor, node *corev1.Node) {
	builtin.VisitField(u, &node.Status.NodeInfo.RunningInUserNamespace)
}

func prepareNodeStatus(_ *builtin.Operation, node, old *corev1.Node) {
	if old.Status.Config == nil {
		node.Status.Config = nil
	}
}

// nodeWarnings returns warnings for fields that have no effect, and for addresses that different programs
// parse differently.
func nodeWarnings(_ *builtin.Operation, node, _ *corev1.Node) []string {
	var warnings []string
	if node.Spec.ConfigSource != nil {
		warnings = append(warnings, "spec.configSource: the feature is removed")
	}
	if node.Spec.DoNotUseExternalID != "" {
		warnings = append(warnings, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	for i, cidr := range node.Spec.PodCIDRs {
		warnings = append(warnings, validation.GetWarningsForCIDR(field.NewPath("spec", "podCIDRs").Index(i), cidr)...)
	}
	return warnings
}

// alignPodCIDRs makes podCIDR equal to the first element of podCIDRs, for clients that use only one of the two
// fields. If both are set and differ, podCIDR, the older field, takes precedence.
func alignPodCIDRs(node *corev1.Node) {
	spec := &node.Spec
	switch {
	case spec.PodCIDR != "" && (len(spec.PodCIDRs) == 0 || spec.PodCIDRs[0] != spec.PodCIDR):
		spec.PodCIDRs = []string{spec.PodCIDR}
	case spec.PodCIDR == "" && len(spec.PodCIDRs) > 0:
		spec.PodCIDR = spec.PodCIDRs[0]
	}
}

func nodeColumns() *builtin.Columns[*corev1.Node] {
	info, status := corev1.NodeSystemInfo{}.SwaggerDoc(), corev1.NodeStatus{}.SwaggerDoc()
	return &builtin.Columns[*corev1.Node]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Status", "string", "The status of the node"),
			builtin.Column("Roles", "string", "The roles of the node"),
			builtin.AgeColumn(),
			builtin.Column("Version", "string", info["kubeletVersion"]),
			builtin.WideColumn("Internal-IP", "string", status["addresses"]),
			builtin.WideColumn("External-IP", "string", status["addresses"]),
			builtin.WideColumn("OS-Image", "string", info["osImage"]),
			builtin.WideColumn("Kernel-Version", "string", info["kernelVersion"]),
			builtin.WideColumn("Container-Runtime", "string", info["containerRuntimeVersion"]),
		},
		Cells: func(node *corev1.Node, now time.Time) []any {
			info := &node.Status.NodeInfo
			return []any{
				node.Name, nodeStatusText(node), nodeRolesText(node.Labels), builtin.Age(node.CreationTimestamp, now), info.KubeletVersion,
				nodeAddress(node, corev1.NodeInternalIP), nodeAddress(node, corev1.NodeExternalIP),
				orUnknown(info.OSImage), nodeKernelText(info), orUnknown(info.ContainerRuntimeVersion),
			}
		},
	}
}

// orUnknown returns s, or <unknown> if it is empty.
func orUnknown(s string) string {
	if s == "" {
		return builtin.Unknown
	}
	return s
}

func nodeStatusText(node *corev1.Node) string {
	text := "Unknown"
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			text = "NotReady"
			if c.Status == corev1.ConditionTrue {
				text = "Ready"
			}
		}
	}
	if node.Spec.Unschedulable {
		text += ",SchedulingDisabled"
	}
	return text
}

// Labels that specify the roles of a node.
const (
	nodeRolePrefix = "node-role.kubernetes.io/"
	nodeRoleLabel  = "kubernetes.io/role"
)

func nodeRolesText(labels map[string]string) string {
	var roles []string
	for key, value := range labels {
		if role, ok := strings.CutPrefix(key, nodeRolePrefix); ok && role != "" {
			roles = append(roles, role)
		} else if key == nodeRoleLabel && value != "" {
			roles = append(roles, value)
		}
	}
	slices.Sort(roles)
	return builtin.OrNone(strings.Join(slices.Compact(roles), ","))
}

func nodeAddress(node *corev1.Node, kind corev1.NodeAddressType) string {
	for i := range node.Status.Addresses {
		if a := &node.Status.Addresses[i]; a.Type == kind {
			return a.Address
		}
	}
	return builtin.None
}

func nodeKernelText(info *corev1.NodeSystemInfo) string {
	text := orUnknown(info.KernelVersion)
	if info.Architecture != "" {
		text += " (" + info.Architecture + ")"
	}
	return text
}
