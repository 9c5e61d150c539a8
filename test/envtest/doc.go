// Package envtest runs controller-runtime's envtest on the folder that "mainstay
// envtest-assets" makes, as tests of operators do after a change of KUBEBUILDER_ASSETS.
package envtest
