// Package conformance replays recorded conversations with a real kube-apiserver against a running mainstay and
// compares the responses: status, relevant headers, bodies as values, and watch events.
//
// A recording (testdata/recordings/*.jsonl.gz) contains scenarios. A scenario contains steps, and a step is one
// request with its response. Each recording is replayed in order against its own server. Memory pairs the
// values that a server generates (UIDs, resourceVersions, times, generated names, allocated addresses): when a
// recorded value first occurs, Memory stores the live value for it, and uses the live value for later requests
// and comparisons.
//
// testdata/known lists the steps that do not match yet, with the reason; any other mismatch fails the test. If
// a listed step matches, it is reported, and `go test ./test/conformance -update` rewrites the lists.
// testdata/differences lists, in the same format, steps whose recorded response is not the desired one, because
// the recordings are from 1.36 and the server implements 1.37. These steps are sent, but their responses are
// not compared.
//
// The folders of beta APIs contain the versions that are served on demand and that 1.37 still serves. They do
// not contain the versions of networking.k8s.io and storage.k8s.io, which were removed, or of
// scheduling.k8s.io, which has changed.
//
// The package also compares discovery documents with the tables in testdata/facts, and round-trips every
// built-in kind with the fixtures of k8s.io/api.
package conformance
