// +k8s:validation-gen=TypesWithField=TypeMeta
// +k8s:validation-gen-input=k8s.io/api/core/v1
// +k8s:validation-gen-scheme-registry=nil

// Package core contains validation code generated from the +k8s markers in k8s.io/api/core/v1 (see
// apis/builtin/declarative).
package core

import _ "k8s.io/api/core/v1" // makes the types available to the generator
