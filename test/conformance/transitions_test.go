package conformance

import "testing"

// sharedNamespace is the name of a recording whose scenarios test several kinds in one namespace.
const sharedNamespace = "transitions/subresources"

// TestTransitions replays updates of existing objects: changes of one or two fields of the spec, sequences of
// statuses, subresources, and deletions of system objects. Most steps are dry runs. If a listed step matches,
// the test fails, so that the list of differences can only become shorter.
func TestTransitions(t *testing.T) {
	t.Parallel()
	replayRejections(t, "transitions", compareTransition,
		"--service-cluster-ip-range=10.0.0.0/16", // a large range, so that the server allocates no address that a later step requests
		"--feature-gates=GenericWorkload=true", "--controllers=-clusterrole-aggregation-controller")
}
