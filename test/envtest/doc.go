// Package envtest runs controller-runtime's envtest with the folder that "mainstay envtest-assets" creates.
// Operator tests use this folder by setting KUBEBUILDER_ASSETS.
package envtest
