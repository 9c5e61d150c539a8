// Package v1beta1 is a fixture.
package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const GroupName = "wind.k8s.io"

// Mill is a kind.
type Mill struct {
	metav1.TypeMeta `json:",inline"`
	Size            int `json:"size"`
}
