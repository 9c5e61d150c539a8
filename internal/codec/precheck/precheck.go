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

// Charge is called with the memory that an object needs, in bytes, and again with higher values if the object
// needs more. The object is rejected with its error. A nil Charge accepts all objects up to MaxMemory.
type Charge func(bytes int) error

// chargedStep is the precision of the values that Charge receives, in bytes.
const chargedStep = 128 << 10

// Meter counts the memory of an object while the object is checked or decoded. The zero value has no Charge.
type Meter struct {
	Charge  Charge
	used    int
	allowed int // memory that was charged
}

// Add counts n bytes, before they are allocated. It returns an API error if the object exceeds MaxMemory, and
// the errors of Charge.
func (m *Meter) Add(n int) error {
	if m.used += n; m.used > m.allowed {
		return m.extend()
	}
	return nil
}

func (m *Meter) extend() error {
	if m.used > MaxMemory {
		return errMemory()
	}
	allowed := MaxMemory
	if m.Charge != nil {
		allowed = (m.used + chargedStep - 1) / chargedStep * chargedStep
		if err := m.Charge(allowed); err != nil {
			return err
		}
	}
	m.allowed = allowed
	return nil
}
