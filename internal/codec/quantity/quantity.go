// Package quantity refuses amounts such as "1e999999999" before
// k8s.io/apimachinery sees them: ten bytes that it would compute a number with a
// billion digits of, when it parses, compares, rounds or prints them. Every
// amount that a client sends passes here, in whichever encoding it comes.
//
// An amount that a cluster can have is never refused: kube-apiserver's own
// documentation ends at 2^63-1, and this limit is a hundred digits beyond.
package quantity

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Limits of an amount as it is written.
const (
	// MaxLength is how long it may be, in bytes.
	MaxLength = 128
	// MaxExponent is how far from zero the exponent of ten may be.
	MaxExponent = 128
)

// ErrOutOfRange reports that an amount is beyond the limits.
var ErrOutOfRange = fmt.Errorf("a quantity may have at most %d characters and an exponent of at most %d", MaxLength, MaxExponent)

// Parse is resource.ParseQuantity within the limits.
func Parse(text string) (resource.Quantity, error) {
	if err := Check(text); err != nil {
		return resource.Quantity{}, err
	}
	return resource.ParseQuantity(text)
}

// Check returns ErrOutOfRange for an amount beyond the limits. What is no amount
// at all passes, for the parser to say why.
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

// checkSpaced is Check of text that apimachinery takes the space from first.
func checkSpaced(text string) error { return Check(strings.TrimSpace(text)) }
