package conformance

import "testing"

// sharedNamespace is the recording whose scenarios use one namespace, of several kinds.
const sharedNamespace = "transitions/subresources"

// TestTransitions replays changes of existing objects: single fields and pairs of fields of the specification, sequences
// of statuses, subresources, and deletions of system objects. Most are dry runs. The list of steps that do not match
// must become shorter: a listed step that matches fails the test.
func TestTransitions(t *testing.T) {
	t.Parallel()
	replayRefusals(t, "transitions", compareTransition,
		"--service-cluster-ip-range=10.0.0.0/16", // large, so that no service is given an address that a later step requests
		"--feature-gates=GenericWorkload=true", "--controllers=-clusterrole-aggregation-controller")
}
