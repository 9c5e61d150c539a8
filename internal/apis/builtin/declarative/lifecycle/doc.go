// +k8s:validation-gen=TypesWithField=TypeMeta
// +k8s:validation-gen-input=k8s.io/api/lifecycle/v1alpha1
// +k8s:validation-gen-scheme-registry=nil

// Package lifecycle contains validation code generated from the +k8s markers in k8s.io/api/lifecycle/v1alpha1
// (see apis/builtin/declarative).
package lifecycle

import _ "k8s.io/api/lifecycle/v1alpha1" // makes the types available to the generator
