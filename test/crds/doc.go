// Package crds shows that custom resources are served as kube-apiserver serves
// them: definitions in the style and size of those that people install, with
// objects that are taken and objects that are refused (testdata, a folder for
// each); definitions and objects that are broken on purpose; and, one test for
// each, the promises that kube-apiserver's own tests of custom resources keep
// (docs/conformance.md lists them). One server runs for all of it, and another,
// without a watch cache, for the promises.
//
// Recorded conversations about custom resources are replayed in
// test/conformance.
package crds
