package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/telemetry/tracing"
)

// First and maximum delay between two attempts of a request.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 250 * time.Millisecond
)

// callSpec describes a request to etcd.
type callSpec struct {
	// name is the name of the operation in traces and metrics.
	name string
	// timeout limits the total time, and attempt the time of each attempt; if attempt is 0, only timeout
	// limits an attempt.
	timeout, attempt time.Duration
	repeat           repeatPolicy
}

// repeatPolicy reports whether a failed request may be retried. sent is true if the request may have reached
// a server.
type repeatPolicy func(err error, sent bool) bool

// repeatRead permits a retry after every temporary error, because reads have no side effects.
func repeatRead(err error, _ bool) bool {
	return transient(err) || isEtcdError(err, rpctypes.ErrTooManyRequests)
}

// repeatWrite permits a retry if the write was certainly not performed: it was not sent, or etcd returned
// ErrNoLeader or ErrTooManyRequests, which it returns before it processes a request.
func repeatWrite(err error, sent bool) bool {
	return !sent && code(err) == codes.Unavailable || isEtcdError(err, rpctypes.ErrNoLeader) || isEtcdError(err, rpctypes.ErrTooManyRequests)
}

// call sends a request, and retries it on another member if that is safe. f must pass the call options to
// etcd's client if a write must not be repeated: without them, call does not know that a request was sent.
// call converts errors to the corresponding errors of package kv, if there are any.
func call[T any](ctx context.Context, s *Store, a callSpec, f func(context.Context, ...grpc.CallOption) (T, error)) (answer T, err error) {
	began := time.Now()
	ctx, span := tracing.StartNamed(ctx, "etcd", a.name)
	defer func() { s.metrics.observe(a.name, began, err); span.End(err) }()
	ctx = withTraceContext(ctx)
	all, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	pause := firstPause
	var reason error // the last error of an unavailable member, which explains a later timeout
	for {
		var to peer.Peer
		answer, err = attempt(all, a, &to, f)
		switch code(err) {
		case codes.Unavailable:
			reason = err
		case codes.DeadlineExceeded:
			err = cmp.Or(reason, err)
		}
		if err == nil {
			s.failingSince.Store(0)
			return answer, nil
		}
		if !s.shouldRetry(err) || !a.repeat(err, to.Addr != nil) || all.Err() != nil {
			return answer, s.explain(ctx, a, err)
		}
		select {
		case <-all.Done():
			return answer, s.explain(ctx, a, err)
		case <-time.After(pause/2 + rand.N(pause)):
		}
		pause = min(2*pause, lastPause)
	}
}

// withTraceContext adds the trace context of a request to the metadata that etcd receives.
func withTraceContext(ctx context.Context) context.Context {
	if !tracing.HasContext(ctx) {
		return ctx
	}
	header := propagation.MapCarrier{}
	tracing.InjectInto(ctx, header)
	for key, value := range header {
		ctx = metadata.AppendToOutgoingContext(ctx, key, value)
	}
	return ctx
}

func attempt[T any](ctx context.Context, a callSpec, to *peer.Peer, f func(context.Context, ...grpc.CallOption) (T, error)) (T, error) {
	if a.attempt > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.attempt)
		defer cancel()
	}
	return f(ctx, grpc.Peer(to))
}

// shouldRetry records a failure and reports whether another attempt is useful. If etcd has been unavailable
// for longer than the timeout of a request, requests fail immediately, so that they do not accumulate.
func (s *Store) shouldRetry(err error) bool {
	if !transient(err) {
		return true
	}
	now := time.Now().UnixNano()
	if s.failingSince.CompareAndSwap(0, now) {
		return true
	}
	return time.Duration(now-s.failingSince.Load()) < s.config.RequestTimeout
}

// isEtcdError reports whether err is the given error of package rpctypes.
func isEtcdError(err, target error) bool { return errors.Is(rpctypes.Error(err), target) }

// tooLargeToSend reports whether a message exceeds the gRPC limit of the client or the server.
func tooLargeToSend(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "message larger than max")
}

// transient reports whether the error means that etcd, or one of its members, did not respond.
func transient(err error) bool {
	switch code(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
		return true
	}
	return false
}

// code returns the gRPC code of an error, even if etcd's client has wrapped it.
func code(err error) codes.Code {
	var known rpctypes.EtcdError
	switch {
	case errors.As(err, &known):
		return known.Code()
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	}
	return status.Code(err)
}

// explain converts an error of etcd to an error of package kv.
func (s *Store) explain(ctx context.Context, a callSpec, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return context.DeadlineExceeded
	case s.ctx.Err() != nil && ctx.Err() != nil:
		return kv.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	text := status.Convert(err).Message()
	switch {
	case isEtcdError(err, rpctypes.ErrCompacted):
		return kv.ErrCompacted
	case isEtcdError(err, rpctypes.ErrFutureRev):
		return kv.ErrFutureRevision
	case isEtcdError(err, rpctypes.ErrNoSpace):
		s.full.Store(true)
		return fmt.Errorf("%w: %s", kv.ErrNoSpace, text)
	case isEtcdError(err, rpctypes.ErrRequestTooLarge), tooLargeToSend(err):
		return fmt.Errorf("%w: %s", kv.ErrTooLarge, text)
	case isEtcdError(err, rpctypes.ErrCorrupt):
		return fmt.Errorf("%w: %s", kv.ErrCorrupt, text)
	case isEtcdError(err, rpctypes.ErrTooManyRequests):
		return fmt.Errorf("%w: %s", kv.ErrUnavailable, text)
	}
	switch code(err) {
	case codes.DeadlineExceeded:
		return fmt.Errorf("%w: etcd has not responded within %s", kv.ErrUnavailable, a.timeout)
	case codes.Unavailable, codes.Canceled:
		return fmt.Errorf("%w: %s", kv.ErrUnavailable, text)
	}
	return errors.New(text)
}
