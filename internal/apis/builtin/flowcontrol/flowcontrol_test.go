package flowcontrol

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOrder(t *testing.T) {
	t.Parallel()
	schema := func(name string, precedence int32) *flowcontrolv1.FlowSchema {
		return &flowcontrolv1.FlowSchema{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.FlowSchemaSpec{MatchingPrecedence: precedence},
		}
	}
	got := byPrecedence([]*flowcontrolv1.FlowSchema{schema("a", 900), schema("c", 1), schema("b", 1)}, nil)
	if diff := cmp.Diff([]int{2, 1, 0}, got); diff != "" {
		t.Error(diff)
	}
}
