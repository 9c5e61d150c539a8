package namespace

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/simulation"
)

// updateConditions writes the result of an attempt to delete the content to the conditions of the namespace.
func (c *Controller) updateConditions(ctx context.Context, ns *corev1.Namespace, found *deletionResult) error {
	_, err := c.namespaces.Subresource("status").Update(ctx, types.NamespacedName{Name: ns.Name}, func(current *corev1.Namespace) error {
		if !isSameDeletion(current, ns) {
			return errReplaced
		}
		for _, condition := range found.conditions(metav1.NewTime(simulation.Now(ctx))) {
			setCondition(&current.Status, condition)
		}
		return nil
	})
	return err
}

// setCondition sets a condition. It keeps the transition time if the status of the condition is unchanged.
func setCondition(status *corev1.NamespaceStatus, desired corev1.NamespaceCondition) {
	i := slices.IndexFunc(status.Conditions, func(c corev1.NamespaceCondition) bool { return c.Type == desired.Type })
	if i < 0 {
		status.Conditions = append(status.Conditions, desired)
		return
	}
	if status.Conditions[i].Status == desired.Status {
		desired.LastTransitionTime = status.Conditions[i].LastTransitionTime
	}
	status.Conditions[i] = desired
}

// conditions returns the conditions for the result. Their messages and order are the same as in
// kube-controller-manager.
func (f *deletionResult) conditions(now metav1.Time) []corev1.NamespaceCondition {
	condition := func(kind corev1.NamespaceConditionType, bad bool, badReason, badMessage, reason, message string) corev1.NamespaceCondition {
		c := corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionFalse, LastTransitionTime: now, Reason: reason, Message: message}
		if bad {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, badReason, badMessage
		}
		return c
	}
	return []corev1.NamespaceCondition{
		condition(corev1.NamespaceDeletionDiscoveryFailure, f.discovery != nil, "DiscoveryFailed", fmt.Sprint(f.discovery),
			"ResourcesDiscovered", "All resources successfully discovered"),
		condition(corev1.NamespaceDeletionGVParsingFailure, false, "", "", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
		condition(corev1.NamespaceDeletionContentFailure, len(f.failed) > 0, "ContentDeletionFailed",
			fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(f.failed), strings.Join(f.messages(), ", ")),
			"ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
		condition(corev1.NamespaceContentRemaining, len(f.remaining) > 0, "SomeResourcesRemain",
			"Some resources are remaining: "+formatCounts(f.remaining, "%s has %d resource instances"), "ContentRemoved", "All content successfully removed"),
		condition(corev1.NamespaceFinalizersRemaining, len(f.finalizers) > 0, "SomeFinalizersRemain",
			"Some content in the namespace has finalizers remaining: "+formatCounts(f.finalizers, "%s in %d resource instances"), "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
	}
}

func (f *deletionResult) messages() []string {
	var messages []string
	for _, err := range f.failed {
		messages = append(messages, err.Error())
	}
	slices.Sort(messages)
	return messages
}

// formatCounts formats each name with its number, and joins the results, sorted by name.
func formatCounts(numbers map[string]int, format string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		parts = append(parts, fmt.Sprintf(format, name, numbers[name]))
	}
	return strings.Join(parts, ", ")
}
