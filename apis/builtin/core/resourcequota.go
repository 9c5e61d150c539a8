package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/apis/builtin"
)

func resourceQuotaColumns() *builtin.Columns[corev1.ResourceQuota] {
	return &builtin.Columns[corev1.ResourceQuota]{
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

// usageTexts shows what is used of what may be, limits apart from the rest.
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
		if strings.HasPrefix(string(name), "limits.") {
			limit = append(limit, text)
		} else {
			request = append(request, text)
		}
	}
	return strings.Join(request, ", "), strings.Join(limit, ", ")
}
