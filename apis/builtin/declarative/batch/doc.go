// +k8s:validation-gen=TypesWithField=TypeMeta
// +k8s:validation-gen-input=k8s.io/api/batch/v1
// +k8s:validation-gen-scheme-registry=nil

// Package batch holds the rules that the markers of k8s.io/api/batch/v1
// declare, generated (see apis/builtin/declarative).
//
// Imports: apis/builtin/declarative/core, apis/builtin/declarative/meta, apis/builtin/declarative/scheduling/v1alpha3.
package batch

import _ "k8s.io/api/batch/v1" // the types, for the generator
