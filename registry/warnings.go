package registry

import (
	"context"
	"fmt"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/request"
)

// warnFinalizers warns of new finalizers without a domain, which may clash with
// another writer's.
func warnFinalizers(ctx context.Context, obj, old codec.Object) {
	for _, finalizer := range unqualifiedFinalizers(obj, old) {
		request.AddWarning(ctx, fmt.Sprintf("metadata.finalizers: %q: prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers", finalizer))
	}
}

func warn(ctx context.Context, texts []string) {
	for _, text := range texts {
		request.AddWarning(ctx, text)
	}
}
