package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/request"
)

// standardFinalizers need no domain.
var standardFinalizers = [...]string{"kubernetes", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}

// warnFinalizers warns of new finalizers without a domain, which may clash with
// another writer's.
func warnFinalizers(ctx context.Context, obj, old codec.Object) {
	for _, finalizer := range obj.GetFinalizers() {
		if strings.Contains(finalizer, "/") || slices.Contains(standardFinalizers[:], finalizer) {
			continue
		}
		if old != nil && slices.Contains(old.GetFinalizers(), finalizer) {
			continue
		}
		request.AddWarning(ctx, fmt.Sprintf("metadata.finalizers: %q: prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers", finalizer))
	}
}

func warn(ctx context.Context, texts []string) {
	for _, text := range texts {
		request.AddWarning(ctx, text)
	}
}
