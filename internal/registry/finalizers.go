package registry

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
)

// FinalizerPolicy is the treatment of new finalizers without a domain, which may collide with the finalizers
// of other writers.
type FinalizerPolicy int

const (
	// AllowUnqualifiedFinalizers accepts these finalizers without a warning.
	AllowUnqualifiedFinalizers FinalizerPolicy = iota
	// WarnUnqualifiedFinalizers warns the client.
	WarnUnqualifiedFinalizers
	// RejectUnqualifiedFinalizers rejects the object.
	RejectUnqualifiedFinalizers
)

// standardFinalizers need no domain.
var standardFinalizers = [...]string{"kubernetes", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}

// unqualifiedFinalizers returns the nonstandard finalizers of obj without a domain, with their
// indexes. It skips finalizers of old, which is nil for a new object.
func unqualifiedFinalizers(obj, old codec.Object) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		var before map[string]bool // the finalizers of old, computed on demand
		for i, finalizer := range obj.GetFinalizers() {
			if strings.Contains(finalizer, "/") || slices.Contains(standardFinalizers[:], finalizer) {
				continue
			}
			if old != nil && before == nil {
				before = setOf(old.GetFinalizers())
			}
			if before[finalizer] {
				continue
			}
			if !yield(i, finalizer) {
				return
			}
		}
	}
}

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, member := range list {
		set[member] = true
	}
	return set
}

func (s *Strategy) validateFinalizers(obj, old codec.Object) field.ErrorList {
	if s.Finalizers != RejectUnqualifiedFinalizers {
		return nil
	}
	var errs field.ErrorList
	for i, finalizer := range unqualifiedFinalizers(obj, old) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "finalizers").Index(i), finalizer, "name is neither a standard finalizer name nor is it fully qualified"))
	}
	return errs
}

// warnFinalizers adds warnings for the response of the request in ctx.
func (s *Strategy) warnFinalizers(ctx context.Context, obj, old codec.Object) {
	if s.Finalizers != WarnUnqualifiedFinalizers {
		return
	}
	for _, finalizer := range unqualifiedFinalizers(obj, old) {
		request.AddWarning(ctx, fmt.Sprintf("metadata.finalizers: %q: prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers", finalizer))
	}
}
