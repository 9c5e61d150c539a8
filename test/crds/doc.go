// Package crds tests that custom resources behave as in kube-apiserver. It contains realistic definitions, each
// with valid and invalid objects (one folder in testdata per definition), deliberately broken definitions and
// objects, and one test for each guarantee that kube-apiserver's own tests of custom resources check
// (docs/reference/conformance.md lists them). All tests share one server. The guarantees that depend on the
// watch cache are also tested on a server without it.
//
// Package test/conformance replays recorded conversations about custom resources.
package crds
