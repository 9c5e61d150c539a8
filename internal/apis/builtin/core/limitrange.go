package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// prepareLimitRange generates a name for an object without a name. kube-apiserver introduced this behavior
// before generateName existed.
func prepareLimitRange(_ *builtin.Operation, limits *corev1.LimitRange) {
	if limits.Name == "" {
		limits.Name = string(uuid.NewUUID())
	}
}
