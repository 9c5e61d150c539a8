package egress

import (
	"context"

	"golang.org/x/sync/singleflight"
)

// Share returns the result of call. While a call with the same key is in progress, Share waits for
// the result of that call instead. call receives a context that does not end with ctx, because
// other callers may wait for the result; Share itself returns ctx.Err() when ctx ends. All uses of
// the same group and key must have the same T.
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
