// +k8s:validation-gen=TypesWithField=ObservedGeneration
// +k8s:validation-gen-input=k8s.io/apimachinery/pkg/apis/meta/v1
// +k8s:validation-gen-scheme-registry=nil

// Package meta contains validation code generated from the +k8s markers in k8s.io/apimachinery/pkg/apis/meta/v1
// (see apis/builtin/declarative).
package meta

import _ "k8s.io/apimachinery/pkg/apis/meta/v1" // makes the types available to the generator
