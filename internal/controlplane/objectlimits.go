package controlplane

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
)

// ObjectLimits limits the objects that clients store, for example their number and total size. Writes by the
// server itself, for example by its controllers, are not limited.
type ObjectLimits interface {
	// Allow returns nil, or the API error for a write. create reports whether the write creates an object. It
	// is called concurrently.
	Allow(create bool) error
}

type clientKey struct{}

// markClients marks the contexts of requests of clients, so that limitedStorage can distinguish them from the
// server's own writes.
func markClients(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), clientKey{}, true)))
	})
}

// limitedStorage applies ObjectLimits to the writes of clients.
type limitedStorage struct {
	storage.Interface
	limits ObjectLimits
}

func (l *limitedStorage) allow(ctx context.Context, create bool) error {
	if ctx.Value(clientKey{}) == nil {
		return nil
	}
	return l.limits.Allow(create)
}

// Create implements storage.Interface.
func (l *limitedStorage) Create(ctx context.Context, obj codec.Object, options storage.WriteOptions) (*codec.Record, error) {
	if err := l.allow(ctx, true); err != nil {
		return nil, err
	}
	return l.Interface.Create(ctx, obj, options)
}

// Update implements storage.Interface. Updates of terminating objects are not limited, because they are
// steps of a deletion.
func (l *limitedStorage) Update(ctx context.Context, name types.NamespacedName, update storage.UpdateFunc, options storage.UpdateOptions) (*codec.Record, error) {
	limited := func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		obj, write, err := update(current)
		if err == nil && obj.GetDeletionTimestamp() == nil {
			err = l.allow(ctx, current == nil)
		}
		return obj, write, err
	}
	return l.Interface.Update(ctx, name, limited, options)
}
