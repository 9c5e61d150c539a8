// +k8s:validation-gen=TypesWithField=ObservedGeneration
// +k8s:validation-gen-input=k8s.io/apimachinery/pkg/apis/meta/v1
// +k8s:validation-gen-scheme-registry=nil

// Package meta contains the generated validation of the markers of
// k8s.io/apimachinery/pkg/apis/meta/v1 (see apis/builtin/declarative).
package meta

import _ "k8s.io/apimachinery/pkg/apis/meta/v1" // the types, for the generator
