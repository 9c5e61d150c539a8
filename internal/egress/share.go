package egress

import (
	"context"

	"golang.org/x/sync/singleflight"
)

// Share makes concurrent calls with the same key share one call, which continues if its first
// caller is canceled.
func Share[T any](ctx context.Context, calls *singleflight.Group, key string, call func(context.Context) (T, error)) (T, error) {
	done := calls.DoChan(key, func() (any, error) { return call(context.WithoutCancel(ctx)) })
	select {
	case result := <-done:
		value, _ := result.Val.(T)
		return value, result.Err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
