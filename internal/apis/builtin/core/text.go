package core

import (
	"k8s.io/apimachinery/pkg/labels"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// labelText formats labels, or a selector that consists of equalities. The result is sorted by key.
func labelText(set map[string]string) string { return builtin.OrNone(labels.Set(set).String()) }
