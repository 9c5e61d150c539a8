package core

import (
	"fmt"
	"slices"
)

// fieldLabel returns a function that accepts only the given field selector keys.
func fieldLabel(keys ...string) func(label, value string) (string, string, error) {
	return func(label, value string) (string, string, error) {
		if !slices.Contains(keys, label) {
			return "", "", fmt.Errorf("field label not supported: %s", label)
		}
		return label, value, nil
	}
}
