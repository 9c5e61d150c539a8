// Package validationtest tests the validation rules of a kind with a table. Each case specifies a change to a
// valid object and the expected errors.
package validationtest

import (
	"slices"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

// Case specifies a change to an object and the expected errors.
type Case[T any] struct {
	Name   string
	Change func(obj *T)
	// Want contains a substring of each expected error, in order. It is empty if the changed object is valid.
	Want []string
}

// Rules validates objects of one kind. Strategy.Validate has the same signature.
type Rules[T any] func(f validation.Field, obj, old *T)

// Create validates changed copies of a new object. It also checks that the unchanged object is valid.
func (r Rules[T]) Create(t *testing.T, valid func() *T, cases []Case[T]) {
	t.Helper()
	r.run(t, valid, nil, append(cases, Case[T]{Name: "valid", Change: func(*T) {}}))
}

// Update validates changed copies of a stored object as updates. It also checks that an update without changes
// is accepted, even if the object is invalid.
func (r Rules[T]) Update(t *testing.T, stored func() *T, cases []Case[T]) {
	t.Helper()
	r.run(t, stored, stored(), append(cases, Case[T]{Name: "as it is", Change: func(*T) {}}))
}

func (r Rules[T]) run(t *testing.T, base func() *T, old *T, cases []Case[T]) {
	t.Helper()
	for _, c := range cases {
		obj := base()
		c.Change(obj)
		errs := Errors(t, feature.Defaults(), func(f validation.Field) { r(f, obj, old) })
		if !slices.EqualFunc(errs, c.Want, strings.Contains) {
			t.Errorf("%s:\n got %q\nwant %q", c.Name, errs, c.Want)
		}
	}
}

// Errors returns the errors that rules report with the given feature gates.
func Errors(t testing.TB, gates feature.Gates, rules func(validation.Field)) []string {
	t.Helper()
	var errs []string
	for _, err := range validation.NewValidator(gates).Validate(t.Context(), rules) {
		errs = append(errs, err.Error())
	}
	return errs
}
