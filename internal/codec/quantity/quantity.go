// Package quantity rejects quantities such as "1e999999999" before k8s.io/apimachinery parses them. To
// parse, compare, round or format such a quantity, apimachinery would compute a number with a billion
// digits. All quantities from clients are checked, in all encodings; package precheck finds them in an
// object. The limits are far beyond realistic quantities: kube-apiserver documents 2^63-1 as the maximum,
// and these limits allow a hundred digits more.
package quantity

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Limits of a quantity in text form.
const (
	// MaxLength is the maximum length, in bytes.
	MaxLength = 128
	// MaxExponent is the maximum absolute value of the decimal exponent.
	MaxExponent = 128
)

// ErrOutOfRange reports that a quantity exceeds MaxLength or MaxExponent.
var ErrOutOfRange = fmt.Errorf("a quantity may have at most %d characters and an exponent of at most %d", MaxLength, MaxExponent)

// Parse is like resource.ParseQuantity, but returns ErrOutOfRange for quantities beyond the limits.
func Parse(text string) (resource.Quantity, error) {
	if err := Check(text); err != nil {
		return resource.Quantity{}, err
	}
	return resource.ParseQuantity(text)
}

// Check returns ErrOutOfRange for a quantity beyond the limits. It returns nil for invalid text,
// which the parser reports.
func Check(text string) error {
	if len(text) > MaxLength {
		return ErrOutOfRange
	}
	digits := len(text)
	for digits > 0 && isDigit(text[digits-1]) {
		digits--
	}
	mark := digits
	if mark > 0 && (text[mark-1] == '-' || text[mark-1] == '+') {
		mark--
	}
	if mark == 0 || text[mark-1] != 'e' && text[mark-1] != 'E' {
		return nil
	}
	exponent := 0
	for i := digits; i < len(text); i++ {
		if exponent = 10*exponent + int(text[i]-'0'); exponent > MaxExponent {
			return ErrOutOfRange
		}
	}
	return nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
