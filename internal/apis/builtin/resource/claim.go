package resource

import (
	"slices"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// prepareClaimStatus drops the statuses of devices that are no longer allocated.
func prepareClaimStatus(_ *builtin.Operation, claim, old *resourcev1.ResourceClaim) {
	gone := allocatedDevices(old)
	for d := range allocatedDevices(claim) {
		delete(gone, d)
	}
	if len(gone) == 0 {
		return
	}
	claim.Status.Devices = slices.DeleteFunc(claim.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool {
		return gone[reportedDevice(&d)]
	})
	if len(claim.Status.Devices) == 0 {
		claim.Status.Devices = nil
	}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func claimColumns() *builtin.Columns[*resourcev1.ResourceClaim] {
	return &builtin.Columns[*resourcev1.ResourceClaim]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("State", "string", "A summary of the current state (allocated, pending, reserved, etc.)."),
			builtin.AgeColumn(),
		},
		Cells: func(claim *resourcev1.ResourceClaim, now time.Time) []any {
			return []any{claim.Name, claimState(claim), builtin.Age(claim.CreationTimestamp, now)}
		},
	}
}

func claimState(claim *resourcev1.ResourceClaim) string {
	var state []string
	deleted := claim.DeletionTimestamp != nil
	if deleted {
		state = append(state, "deleted")
	}
	switch {
	case claim.Status.Allocation != nil:
		state = append(state, "allocated")
		if len(claim.Status.ReservedFor) > 0 {
			state = append(state, "reserved")
		}
	case !deleted:
		state = append(state, "pending")
	}
	return strings.Join(state, ",")
}

func claimTemplateColumns() *builtin.Columns[*resourcev1.ResourceClaimTemplate] {
	return &builtin.Columns[*resourcev1.ResourceClaimTemplate]{
		Definitions: []metav1.TableColumnDefinition{builtin.NameColumn(), builtin.AgeColumn()},
		Cells: func(template *resourcev1.ResourceClaimTemplate, now time.Time) []any {
			return []any{template.Name, builtin.Age(template.CreationTimestamp, now)}
		},
	}
}
