// +k8s:validation-gen=TypesWithField=TypeMeta
// +k8s:validation-gen-input=k8s.io/api/resource/v1alpha3
// +k8s:validation-gen-scheme-registry=nil

// Package v1alpha3 contains validation code generated from the +k8s markers in k8s.io/api/resource/v1alpha3
// (see apis/builtin/declarative).
package v1alpha3

import _ "k8s.io/api/resource/v1alpha3" // makes the types available to the generator
