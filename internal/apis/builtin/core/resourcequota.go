package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func resourceQuotaColumns() *builtin.Columns[*corev1.ResourceQuota] {
	return &builtin.Columns[*corev1.ResourceQuota]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Request", "string", "Request represents a minimum amount of cpu/memory that a container may consume."),
			builtin.Column("Limit", "string", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."),
			builtin.AgeColumn(),
		},
		Cells: func(quota *corev1.ResourceQuota, now time.Time) []any {
			requests, limits := usageTexts(&quota.Status)
			return []any{quota.Name, requests, limits, builtin.Age(quota.CreationTimestamp, now)}
		},
	}
}

// limitsPrefix is the prefix of the names under which quotas constrain limits. Unprefixed names constrain
// requests.
const limitsPrefix = "limits."

// usageTexts formats the usage of each resource as "USED/HARD". limits contains the resources with
// limitsPrefix, and requests contains all other resources.
func usageTexts(status *corev1.ResourceQuotaStatus) (requests, limits string) {
	names := make([]corev1.ResourceName, 0, len(status.Hard))
	for name := range status.Hard {
		names = append(names, name)
	}
	slices.Sort(names)
	var request, limit []string
	for _, name := range names {
		used, hard := status.Used[name], status.Hard[name]
		text := fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String())
		if strings.HasPrefix(string(name), limitsPrefix) {
			limit = append(limit, text)
		} else {
			request = append(request, text)
		}
	}
	return strings.Join(request, ", "), strings.Join(limit, ", ")
}

// resourceQuotaWarnings returns warnings for requests that exceed the limits. As in kube-apiserver, updates
// cause no warnings.
func resourceQuotaWarnings(_ *builtin.Operation, quota, old *corev1.ResourceQuota) []string {
	if old != nil {
		return nil
	}
	var warnings []string
	hard := quota.Spec.Hard
	for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage} {
		requests, limits := corev1.DefaultResourceRequestsPrefix+name, limitsPrefix+name
		request, ok := hard[requests]
		if !ok && (name == corev1.ResourceCPU || name == corev1.ResourceMemory) {
			requests = name
			request = hard[name]
		}
		if limit, ok := hard[limits]; ok && request.Cmp(limit) > 0 {
			warnings = append(warnings, fmt.Sprintf("ResourceQuota %s (%s) should be less than %s (%s)", requests, request.String(), limits, limit.String()))
		}
	}
	return warnings
}
