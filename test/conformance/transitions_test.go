package conformance

import "testing"

// sharedNamespace is a recording with scenarios of several kinds in one namespace.
const sharedNamespace = "transitions/subresources"

// TestTransitions replays updates of existing objects: changes of one or two fields of the spec,
// sequences of statuses, subresources, and deletions of system objects. Most steps are dry runs. A
// listed step that matches fails the test, so that the list of differences only becomes shorter.
func TestTransitions(t *testing.T) {
	t.Parallel()
	replayRejections(t, "transitions", compareTransition,
		"--service-cluster-ip-range=10.0.0.0/16", // a large range, so that the server allocates no address that a later step requests
		"--feature-gates=GenericWorkload=true", "--controllers=-clusterrole-aggregation-controller")
}
