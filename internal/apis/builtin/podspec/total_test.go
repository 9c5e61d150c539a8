package podspec

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestTotal(t *testing.T) {
	t.Parallel()
	spec := podOf(t, `"containers":[{"resources":{"requests":{"a":"1"}}},{"resources":{"requests":{"a":"1","b":"1"}}}],"initContainers":[
		{"resources":{"requests":{"a":"4"}}},
		{"restartPolicy":"Always","resources":{"requests":{"b":"2","c":"3"}}},
		{"resources":{"requests":{"b":"1","d":"1"}}},
		{"restartPolicy":"Always","resources":{"requests":{"a":"1","c":"3"}}},
		{"resources":{"requests":{"a":"4"}}}]`)
	want := corev1.ResourceList{
		"a": resource.MustParse("5"), "b": resource.MustParse("3"), "c": resource.MustParse("6"), "d": resource.MustParse("1"),
	}
	if got := TotalRequests(spec); !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestTotalOfManyContainers computes the total of many init containers, some of which are sidecars with many
// resources. Copying the sidecars' resources for each container would take hours.
func TestTotalOfManyContainers(t *testing.T) {
	t.Parallel()
	const n = 200_000
	spec := &corev1.PodSpec{InitContainers: make([]corev1.Container, n)}
	always, many := corev1.ContainerRestartPolicyAlways, corev1.ResourceList{}
	for i := range n {
		many[corev1.ResourceName(fmt.Sprint("r", i))] = resource.MustParse("1")
		if i%2 == 0 {
			spec.InitContainers[i].RestartPolicy = &always
		}
	}
	spec.InitContainers[0].Resources.Requests = many
	if got := TotalRequests(spec); len(got) != n {
		t.Errorf("%d resources, want %d", len(got), n)
	}
}
