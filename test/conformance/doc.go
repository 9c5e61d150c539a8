// Package conformance replays conversations recorded from a real kube-apiserver against a running mainstay and
// compares the answers: status, the headers that clients act on, bodies as values, and what watches send.
//
// A recording (testdata/recordings/*.jsonl.gz) is a file of scenarios, a scenario is a list of steps, and a step is one
// request with its answer. Each recording is replayed in order against a server of its own. What a server invents (uids,
// resourceVersions, times, generated names, allocated addresses) is learned by Memory while answers are compared: the
// first live value met in the place of a recorded one is its partner from then on, in later answers and in later
// requests that quote it.
//
// testdata/known names the steps that do not match yet, with the reason; any other mismatch fails the test. A listed step
// that matches is reported, and `go test ./test/conformance -update` rewrites the lists. testdata/differences names, in the
// same form, the steps whose recorded answer is not the one wanted: the recordings are of 1.36, and the server aims at
// 1.37. They are sent, and their answers are not compared.
//
// The folders of betas hold the versions that are served on demand, as far as 1.37 serves them: those of
// networking.k8s.io and storage.k8s.io are gone, and that of scheduling.k8s.io has become another one.
//
// Beside the replay, the package holds the discovery documents against the tables of testdata/facts, and sends every
// built-in kind through its round trip with the fixtures of k8s.io/api.
package conformance
