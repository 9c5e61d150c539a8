package validation

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"mainstay.dev/mainstay/internal/codec/protoequal"
)

// Changed reports whether a value differs from the old one. Rules that are newer than stored
// objects apply to changed values only, so that such objects stay editable (ratcheting).
func Changed[T any](value, old T) bool { return !Equal(&value, &old) }

// Equal reports whether two pointers to one type, neither of them nil, point to the same values.
// An absent list is an empty one, and quantities are the same if their amounts are.
//
// Types that have a protobuf encoding are compared by that first.
func Equal(a, b any) bool {
	return protoequal.Equal(a, b) || equality.Semantic.DeepEqual(a, b)
}
