package admission_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/request"
)

// acting is a mutating plugin that calls a function.
type acting struct {
	name string
	do   func(ctx context.Context, a *admission.Attributes) error
}

func (p acting) Name() string                      { return p.name }
func (acting) Handles(op admission.Operation) bool { return true }

func (p acting) Mutate(ctx context.Context, a *admission.Attributes) error { return p.do(ctx, a) }

// checking is a validating plugin that calls a function.
type checking struct {
	name string
	do   func(ctx context.Context, a *admission.Attributes) error
}

func (p checking) Name() string                      { return p.name }
func (checking) Handles(op admission.Operation) bool { return true }

func (p checking) Validate(ctx context.Context, a *admission.Attributes) error { return p.do(ctx, a) }

// TestExplanation checks that each call of a plugin is recorded as a step with its modifications and messages.
func TestExplanation(t *testing.T) {
	t.Parallel()
	chain := admission.Chain{
		acting{"changes", func(_ context.Context, a *admission.Attributes) error {
			m := a.Object.(*corev1.ConfigMap)
			if a.Reinvoked() {
				return nil
			}
			m.Data["new"], m.Data["old"], m.Finalizers = "1", "changed", []string{"f"}
			delete(m.Data, "gone")
			m.Annotations = map[string]string{"a.b/c": "x"}
			a.Reinvoke()
			return nil
		}},
		acting{"says", func(ctx context.Context, a *admission.Attributes) error {
			request.AddWarning(ctx, "careful")
			return a.Annotate(ctx, "a.b/says", "x")
		}},
		checking{"passes", func(context.Context, *admission.Attributes) error { return nil }},
		checking{"refuses", func(context.Context, *admission.Attributes) error { return errors.New("no") }},
		checking{"never asked", func(context.Context, *admission.Attributes) error { return nil }},
	}
	a := &admission.Attributes{
		Request: admission.Request{Operation: admission.Create, Explanation: &admission.Explanation{}},
		Object:  &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"old": "x", "gone": "y", "same": "z"}},
	}
	ctx := request.NewContext(httptest.NewRequest("GET", "/", nil).Context(), &request.Info{}, time.Now())
	request.SetAudit(ctx, &request.Audit{})
	if err := chain.Mutate(ctx, a); err != nil {
		t.Fatal(err)
	}
	if err := chain.Validate(ctx, a); err == nil {
		t.Fatal("not rejected")
	}
	want := []admission.Step{
		{Plugin: "changes", Phase: "Mutate", Changes: []admission.Change{
			{Path: "data.gone", Before: "y"}, {Path: "data.new", After: "1"}, {Path: "data.old", Before: "x", After: "changed"},
			{Path: "metadata.annotations", After: map[string]any{"a.b/c": "x"}}, {Path: "metadata.finalizers", After: []any{"f"}},
		}},
		{Plugin: "says", Phase: "Mutate", Warnings: []string{"careful"}, AuditAnnotations: map[string]string{"a.b/says": "x"}},
		{Plugin: "changes", Phase: "Mutate", Again: true},
		{Plugin: "says", Phase: "Mutate", Again: true},
		{Plugin: "passes", Phase: "Validate"},
		{Plugin: "refuses", Phase: "Validate", Rejection: "no"},
	}
	if diff := cmp.Diff(want, a.Explanation.Steps, cmpopts.IgnoreFields(admission.Step{}, "Took"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if err := chain.Mutate(ctx, a); err != nil || len(a.Explanation.Steps) != 4 {
		t.Errorf("second attempt: error %v, %d steps", err, len(a.Explanation.Steps))
	}
}

// TestExplanationIsBounded checks the limit on the number of modifications.
func TestExplanationIsBounded(t *testing.T) {
	t.Parallel()
	chain := admission.Chain{acting{"many", func(_ context.Context, a *admission.Attributes) error {
		for i := range 1000 {
			a.Object.(*corev1.ConfigMap).Data[fmt.Sprint(i)] = "x"
		}
		return nil
	}}}
	a := &admission.Attributes{Request: admission.Request{Explanation: &admission.Explanation{}}, Object: &corev1.ConfigMap{Data: map[string]string{"a": "b"}}}
	if err := chain.Mutate(t.Context(), a); err != nil || len(a.Explanation.Steps[0].Changes) != 100 {
		t.Errorf("%v, %d changes", err, len(a.Explanation.Steps[0].Changes))
	}
}

// TestRejection checks that an error contains the plugin's name and still matches the original error.
func TestRejection(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("no"))
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil)
	own := metav1.StatusCause{Type: admission.CausePlugin, Message: "P"}
	missing := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("no"))
	missing.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	bare := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("no"))
	bare.ErrStatus.Details = nil
	for name, tt := range map[string]struct {
		err  *apierrors.StatusError
		want []metav1.StatusCause
	}{
		"forbidden":       {forbidden, []metav1.StatusCause{own}},
		"without details": {bare, []metav1.StatusCause{own}},
		"with a cause":    {missing, []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}, own}},
		"invalid":         {invalid, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := tt.err.ErrStatus.DeepCopy()
			chain := admission.Chain{acting{"P", func(context.Context, *admission.Attributes) error { return tt.err }}}
			err := chain.Mutate(t.Context(), &admission.Attributes{})
			var refusal *admission.RejectionError
			if !errors.As(err, &refusal) || refusal.Plugin != "P" || err.Error() != tt.err.Error() || apierrors.ReasonForError(err) != before.Reason {
				t.Fatalf("error %v", err)
			}
			status := tt.err.Status()
			refusal.AddTo(&status)
			var causes []metav1.StatusCause
			if status.Details != nil {
				causes = status.Details.Causes
			}
			if diff := cmp.Diff(tt.want, causes, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(*before, tt.err.ErrStatus); diff != "" {
				t.Errorf("the plugin's error was changed:\n%s", diff)
			}
		})
	}
}
