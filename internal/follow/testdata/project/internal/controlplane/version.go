// Package controlplane is a fixture.
package controlplane

import (
	"k8s.io/apimachinery/pkg/apis/meta/version"
	"sigs.k8s.io/library/v6"
)

const (
	kubernetesMinor    = "37"
	compatibilityMinor = "36"
)

//go:generate cp version.go generated.txt

// Version is the version of a library.
var Version = library.Name + kubernetesMinor + compatibilityMinor

// Minor is the minor version of the fixture.
const Minor = version.Minor
