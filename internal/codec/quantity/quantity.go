// Package quantity rejects quantities such as "1e999999999" before k8s.io/apimachinery parses them:
// it would compute a number with a billion digits when it parses, compares, rounds or prints them.
// All quantities of clients pass this package, in all encodings. The limit is far beyond realistic
// quantities: kube-apiserver documents 2^63-1 as the maximum, and this limit has a hundred digits
// more.
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

// Check returns ErrOutOfRange for a quantity beyond the limits. Invalid text passes; the parser
// reports it.
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

// checkSpaced checks text that apimachinery trims first.
func checkSpaced(text string) error { return Check(strings.TrimSpace(text)) }
