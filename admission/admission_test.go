package admission_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/admission"
)

// The plugins of the tests note that they were called.
type (
	mutator   struct{ recorder }
	validator struct{ recorder }
	both      struct {
		mutator
		validator
	}
	recorder struct {
		name  string
		calls *[]string
		err   error
	}
)

func (r recorder) Name() string { return r.name }

func (r recorder) note(what string) error {
	*r.calls = append(*r.calls, what+" "+r.name)
	return r.err
}

func (m mutator) Mutate(_ context.Context, a *admission.Attributes) error {
	if a.Object != nil {
		a.Object.SetName(a.Object.GetName() + "-" + m.name)
	}
	return m.note("mutate")
}

func (v validator) Validate(context.Context, *admission.Attributes) error { return v.note("validate") }

func (b both) Name() string { return b.mutator.name }

func chain(calls *[]string, failing string, err error) admission.Chain {
	r := func(name string) recorder {
		if name == failing {
			return recorder{name, calls, err}
		}
		return recorder{name, calls, nil}
	}
	return admission.Chain{mutator{r("a")}, both{mutator{r("b")}, validator{r("b")}}, validator{r("c")}, mutator{r("d")}}
}

func TestChainOrder(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		failing string
		want    []string
	}{
		"all":                {"", []string{"mutate a", "mutate b", "mutate d", "validate b", "validate c"}},
		"the first refuses":  {"a", []string{"mutate a"}},
		"the second refuses": {"b", []string{"mutate a", "mutate b"}},
		"a check refuses":    {"c", []string{"mutate a", "mutate b", "mutate d", "validate b", "validate c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls []string
			c := chain(&calls, test.failing, refused)
			a := &admission.Attributes{Operation: admission.Create, Object: &corev1.ConfigMap{}}
			err := c.Mutate(t.Context(), a)
			if err == nil {
				err = c.Validate(t.Context(), a)
			}
			if (test.failing != "") != errors.Is(err, refused) {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(test.want, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChainOfNone(t *testing.T) {
	t.Parallel()
	var c admission.Chain
	if err := errors.Join(c.Mutate(t.Context(), &admission.Attributes{}), c.Validate(t.Context(), &admission.Attributes{}), c.Validation(admission.Attributes{})(t.Context(), nil, nil)); err != nil {
		t.Error(err)
	}
}

// seen keeps the attributes of the last check.
type seen struct{ last *admission.Attributes }

func (seen) Name() string { return "Seen" }

func (s seen) Validate(_ context.Context, a *admission.Attributes) error {
	*s.last = *a
	return nil
}

// TestValidation: the check of the final object knows its final name, and
// leaves the attributes that it was made from alone.
func TestValidation(t *testing.T) {
	t.Parallel()
	var last admission.Attributes
	a := admission.Attributes{Operation: admission.Update, Namespace: "a", Name: "asked"}
	check := admission.Chain{seen{&last}}.Validation(a)
	obj, old := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "final"}}, &corev1.ConfigMap{}
	if err := check(t.Context(), obj, old); err != nil {
		t.Fatal(err)
	}
	if last.Object != obj || last.Old != old || last.Name != "final" || last.Namespace != "a" {
		t.Errorf("attributes %+v", last)
	}
	if err := check(t.Context(), nil, old); err != nil {
		t.Fatal(err)
	}
	if last.Object != nil || last.Name != "asked" {
		t.Errorf("of a deletion: %+v", last)
	}
}
