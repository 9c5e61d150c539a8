// Package feature is a fixture.
package feature

import (
	"k8s.io/apimachinery/pkg/apis/meta/version"
	"sigs.k8s.io/library/v6"
)

// The minor versions of the fixture.
const (
	Oldest = 36
	Newest = 37
)

//go:generate cp history.go generated.txt

// Version is the version of a library.
var Version = library.Name

// Minor is the minor version of the fixture.
const Minor = version.Minor
