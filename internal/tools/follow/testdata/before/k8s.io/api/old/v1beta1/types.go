// Package v1beta1 is a fixture.
package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const GroupName = "old.k8s.io"

// Lever is a kind.
type Lever struct {
	metav1.TypeMeta `json:",inline"`
	Size            int `json:"size"`
}
