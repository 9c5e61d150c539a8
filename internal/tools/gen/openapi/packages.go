package main

// packages lists the Go packages for whose types definitions are generated. It includes all of k8s.io/api, so
// that disabled versions can be enabled without a new build, and also the common types of apimachinery and the
// two APIs in separate modules. openapi-gen ignores packages without its marker in doc.go.
var packages = []string{
	"k8s.io/api/...",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1",
	"k8s.io/apimachinery/pkg/api/resource",
	"k8s.io/apimachinery/pkg/apis/meta/v1",
	"k8s.io/apimachinery/pkg/runtime",
	"k8s.io/apimachinery/pkg/util/intstr",
	"k8s.io/apimachinery/pkg/version",
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1",
}
