package resource

import (
	"fmt"
	"strconv"
	"time"

	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func defaultPoolRequest(request *resourcev1alpha3.ResourcePoolStatusRequest) {
	builtin.SetDefault(&request.Spec.Limit, resourcev1alpha3.ResourcePoolStatusRequestLimitDefault)
}

// Condition types.
const (
	poolsComplete = "Complete"
	poolsFailed   = "Failed"
)

func poolRequestColumns() *builtin.Columns[*resourcev1alpha3.ResourcePoolStatusRequest] {
	return &builtin.Columns[*resourcev1alpha3.ResourcePoolStatusRequest]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Driver", "string", "The driver to query pools for."),
			builtin.Column("Total", "string", "Total number of devices across all pools."),
			builtin.Column("Available", "string", "Number of available devices across all pools."),
			builtin.Column("Allocated", "string", "Number of allocated devices across all pools."),
			builtin.Column("Unavailable", "string", "Number of unavailable devices across all pools."),
			builtin.Column("Errors", "string", "Number of pools with validation errors."),
			builtin.Column("Pools", "integer", "Total number of matching pools."),
			builtin.Column("Status", "string", "Processing status."),
			builtin.Column("Completed", "string", "Time since the observation completed."),
		},
		Cells: func(request *resourcev1alpha3.ResourcePoolStatusRequest, now time.Time) []any {
			state, completed := poolRequestState(request, now)
			count := int64(0)
			if s := request.Status; s != nil && s.PoolCount != nil {
				count = int64(*s.PoolCount)
			}
			sums := poolSums(request.Status, state == poolsFailed)
			return []any{request.Name, request.Spec.Driver, sums[0], sums[1], sums[2], sums[3], sums[4], count, state, completed}
		},
	}
}

// poolSums returns the numbers of total, available, allocated and unavailable devices of all pools, and the
// number of pools with errors. All are "-" if the status is nil or the request has failed.
func poolSums(status *resourcev1alpha3.ResourcePoolStatusRequestStatus, failed bool) [5]string {
	if status == nil || failed {
		return [5]string{"-", "-", "-", "-", "-"}
	}
	var sums [5]int64
	for i := range status.Pools {
		pool := &status.Pools[i]
		for j, n := range [...]*int32{pool.TotalDevices, pool.AvailableDevices, pool.AllocatedDevices, pool.UnavailableDevices} {
			if n != nil {
				sums[j] += int64(*n)
			}
		}
		if pool.ValidationError != nil {
			sums[4]++
		}
	}
	var texts [5]string
	for i, n := range sums {
		texts[i] = strconv.FormatInt(n, 10)
	}
	return texts
}

func poolRequestState(request *resourcev1alpha3.ResourcePoolStatusRequest, now time.Time) (state, completed string) {
	state, completed = "Pending", builtin.None
	if request.Status == nil {
		return state, completed
	}
	for i := range request.Status.Conditions {
		c := &request.Status.Conditions[i]
		if c.Status != metav1.ConditionTrue {
			continue
		}
		switch c.Type {
		case poolsFailed:
			return poolsFailed, completed
		case poolsComplete:
			state, completed = poolsComplete, builtin.Age(c.LastTransitionTime, now)
			if listed, count := len(request.Status.Pools), request.Status.PoolCount; count != nil && int(*count) > listed {
				state = fmt.Sprintf("%s (%d/%d pools)", poolsComplete, listed, *count)
			}
		}
	}
	return state, completed
}
