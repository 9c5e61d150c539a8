package core

import (
	"fmt"
	"slices"
)

// fieldLabel returns a function that accepts the given keys of field selectors, and no others.
func fieldLabel(keys ...string) func(label, value string) (string, string, error) {
	return func(label, value string) (string, string, error) {
		if !slices.Contains(keys, label) {
			return "", "", fmt.Errorf("field label not supported: %s", label)
		}
		return label, value, nil
	}
}
