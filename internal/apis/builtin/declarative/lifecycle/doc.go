// +k8s:validation-gen=TypesWithField=TypeMeta
// +k8s:validation-gen-input=k8s.io/api/lifecycle/v1alpha1
// +k8s:validation-gen-scheme-registry=nil

// Package lifecycle contains the generated validation of the markers of
// k8s.io/api/lifecycle/v1alpha1 (see apis/builtin/declarative).
package lifecycle

import _ "k8s.io/api/lifecycle/v1alpha1" // the types, for the generator
