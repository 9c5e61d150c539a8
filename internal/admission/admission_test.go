package admission_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission"
)

// Plugins that record their calls.
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
		// idle disables the plugin for all operations.
		idle bool
	}
)

func (r recorder) Name() string { return r.name }

func (r recorder) Handles(admission.Operation) bool { return !r.idle }

func (r recorder) note(what string) error {
	*r.calls = append(*r.calls, what+" "+r.name)
	return r.err
}

func (m mutator) Mutate(_ context.Context, a *admission.Attributes) error {
	return m.note("mutate")
}

func (v validator) Validate(context.Context, *admission.Attributes) error { return v.note("validate") }

func (b both) Name() string                        { return b.mutator.name }
func (b both) Handles(op admission.Operation) bool { return b.mutator.Handles(op) }

func chain(calls *[]string, failing string, err error) admission.Chain {
	r := func(name string) recorder {
		if name == failing {
			return recorder{name: name, calls: calls, err: err}
		}
		return recorder{name: name, calls: calls}
	}
	idle := recorder{name: "idle", calls: calls, idle: true}
	return admission.Chain{mutator{r("a")}, both{mutator{r("b")}, validator{r("b")}}, both{mutator{idle}, validator{idle}}, validator{r("c")}, mutator{r("d")}}
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
			a := &admission.Attributes{Request: admission.Request{Operation: admission.Create}, Object: &corev1.ConfigMap{}}
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
			calls = nil
			deleted := c.ValidateDeletionFunc(admission.Request{Operation: admission.Delete})(t.Context(), nil, &corev1.ConfigMap{})
			if diff := cmp.Diff(test.want, calls); diff != "" || errors.Is(deleted, refused) != errors.Is(err, refused) {
				t.Errorf("deletion: error %v, calls (-want +got):\n%s", deleted, diff)
			}
		})
	}
}

// TestUnhandledOperation checks that a chain has no effect on an operation that none of its plugins
// handles.
func TestUnhandledOperation(t *testing.T) {
	t.Parallel()
	var calls []string
	idle := recorder{name: "idle", calls: &calls, idle: true}
	for name, c := range map[string]admission.Chain{"none": nil, "idle": {both{mutator{idle}, validator{idle}}}} {
		a := &admission.Attributes{Request: admission.Request{Operation: admission.Update}}
		if err := errors.Join(c.Mutate(t.Context(), a), c.Validate(t.Context(), a)); err != nil {
			t.Error(err)
		}
		if c.Mutates(admission.Update) || c.Validates(admission.Update) || c.ValidateFunc(a.Request) != nil || c.ValidateDeletionFunc(a.Request) != nil || len(calls) > 0 {
			t.Errorf("%s: the chain handles the operation", name)
		}
	}
}

// seen records the name and the objects of the last validation.
type seen struct {
	name        *string
	object, old *any
}

func (seen) Name() string                     { return "Seen" }
func (seen) Handles(admission.Operation) bool { return true }

func (s seen) Validate(_ context.Context, a *admission.Attributes) error {
	*s.name, *s.object, *s.old = a.Namespace+"/"+a.Name, a.Object, a.Old
	return nil
}

// TestValidation checks that the final object is validated with its final name.
func TestValidation(t *testing.T) {
	t.Parallel()
	var name string
	var object, old any
	c := admission.Chain{seen{&name, &object, &old}}
	obj, was := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "final"}}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "was"}}
	for asked, want := range map[string]string{"asked": "a/asked", "": "a/final"} {
		check := c.ValidateFunc(admission.Request{Operation: admission.Update, Namespace: "a", Name: asked})
		if err := check(t.Context(), obj, was); err != nil {
			t.Fatal(err)
		}
		if object != any(obj) || old != any(was) || name != want {
			t.Errorf("requests %q: %v, %v, %s", asked, object, old, name)
		}
	}
	for asked, want := range map[string]string{"asked": "a/asked", "": "a/"} {
		if err := c.ValidateDeletionFunc(admission.Request{Operation: admission.Delete, Namespace: "a", Name: asked})(t.Context(), nil, was); err != nil {
			t.Fatal(err)
		}
		if object != nil || old != any(was) || name != want {
			t.Errorf("deletion, asked %q: %v, %v, %s", asked, object, old, name)
		}
	}
}
