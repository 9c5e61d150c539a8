package codec

import (
	"bytes"

	"mainstay.dev/mainstay/internal/codec/precheck"
)

// WithCharge returns a copy of v that decodes objects of clients only if charge accepts their memory. See
// precheck.Charge.
func (v *Version) WithCharge(charge precheck.Charge) *Version {
	charged := *v
	charged.charge = charge
	return &charged
}

// valueMemory is the estimated memory of a value in a decoded document, in bytes. It includes the map or list that
// contains the value, and the managed fields.
const valueMemory = 200

// ChargeDocument charges the memory of a JSON or YAML body that is decoded as a document of maps and lists; see
// WithCharge. The memory is estimated from the number of values. It returns the error of the charge.
func (v *Version) ChargeDocument(body []byte) error {
	if v.charge == nil {
		return nil
	}
	values := 0
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) { // most clients apply JSON
		values = punctuation(body)
	} else {
		values = indicators(body)
	}
	return v.charge(values * valueMemory)
}

// punctuation returns the number of punctuation characters outside of strings in a JSON text: about two per field,
// one per list element, and one per list or map.
func punctuation(text []byte) int {
	n := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ',', ':', '[', '{':
			n++
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		}
	}
	return n
}
