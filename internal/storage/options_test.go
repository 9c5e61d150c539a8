package storage

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/rest"
)

// TestValidateListOptions compares the messages with those of kube-apiserver.
func TestValidateListOptions(t *testing.T) {
	t.Parallel()
	yes := true
	const exact, newer = metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan
	for _, c := range []struct {
		name    string
		options rest.ListOptions
		watch   bool
		want    string
	}{
		{"none", rest.ListOptions{}, false, "<nil>"},
		{"match alone", rest.ListOptions{ResourceVersionMatch: exact}, false,
			"resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"},
		{"match and continue", rest.ListOptions{ResourceVersionMatch: exact, Continue: "x"}, false,
			"[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided]"},
		{"unknown match", rest.ListOptions{ResourceVersionMatch: "Nope", ResourceVersion: "1"}, false,
			`resourceVersionMatch: Unsupported value: "Nope": supported values: "Exact", "NotOlderThan", ""`},
		{"exactly any", rest.ListOptions{ResourceVersionMatch: exact, ResourceVersion: "0"}, false,
			`resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"`},
		{"initial events of a list", rest.ListOptions{SendInitialEvents: &yes}, false,
			"sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"},
		{"initial events", rest.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: newer}, true, "<nil>"},
		{"initial events without match", rest.ListOptions{SendInitialEvents: &yes}, true,
			"resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"},
		{"match of a watch", rest.ListOptions{ResourceVersionMatch: newer, ResourceVersion: "0"}, true,
			"resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := "<nil>"
			if err := ValidateListOptions(c.options, c.watch).ToAggregate(); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
