package egress

import (
	"context"

	"golang.org/x/sync/singleflight"
)

// Share makes concurrent calls with the same key share the result of one call. The call does not
// end when ctx ends, because other callers may wait for it; Share itself then returns ctx.Err().
// All calls with the same group and key must have the same T.
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
