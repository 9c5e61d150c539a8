// Package precheck rejects encoded objects that are too expensive to decode or to use, before the decoder reads
// them. All objects from clients are checked, in all encodings. The package finds:
//
//   - quantities that are too large for apimachinery to parse (package quantity);
//   - objects whose Go values need much more memory than their encoding, such as long lists of empty structs;
//   - protobuf messages for which the generated code would exhaust its stack, or copy the same data many times;
//   - values in protobuf that have no JSON encoding, such as a time in the year 10000.
//
// Objects that are read from storage are not checked, so that stored objects can always be read.
package precheck

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// MaxMemory is the maximum memory, in bytes, of the list elements, map entries and structs of a decoded
// object. It is about ten times the maximum size of a request body. An empty element, encoded in two or
// three bytes, can become a struct of 500 bytes, but in typical objects an element is about as large as its
// encoding. CustomResourceDefinitions have the largest ratio; MaxMemory allows a definition with 60,000
// properties.
const MaxMemory = 32 << 20

// errMemory returns the API error for an object that exceeds MaxMemory.
func errMemory() error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the lists, maps and structs of the object need more than %d bytes of memory", MaxMemory))
}

// counter counts the memory of an object while it is checked.
type counter struct{ used int }

// add counts n bytes. It returns an API error if the object exceeds MaxMemory.
func (c *counter) add(n int) error {
	if c.used += n; c.used > MaxMemory {
		return errMemory()
	}
	return nil
}
