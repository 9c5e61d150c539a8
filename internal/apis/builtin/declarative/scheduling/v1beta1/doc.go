// +k8s:validation-gen=TypesWithField=TypeMeta
// +k8s:validation-gen-input=k8s.io/api/scheduling/v1beta1
// +k8s:validation-gen-scheme-registry=nil

// Package v1beta1 contains validation code generated from the +k8s markers in k8s.io/api/scheduling/v1beta1
// (see apis/builtin/declarative).
package v1beta1

import _ "k8s.io/api/scheduling/v1beta1" // makes the types available to the generator
