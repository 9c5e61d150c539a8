package validation

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"mainstay.dev/mainstay/internal/codec/protoequal"
)

// Changed reports whether a value differs from the old value. Rules that are newer than some stored objects
// apply only to changed values, so that these objects can still be updated (ratcheting).
func Changed[T any](value, old T) bool { return !Equal(&value, &old) }

// Equal reports whether two pointers of the same type point to equal values. The pointers must not be nil. A
// nil list equals an empty list. Quantities are equal if their amounts are equal.
//
// If a type has a protobuf encoding, Equal compares the encodings first.
func Equal(a, b any) bool {
	return protoequal.Equal(a, b) || equality.Semantic.DeepEqual(a, b)
}
