package controlplane

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// view serves the API as it was at one revision, with the resources, definitions and documents of that time. It
// has no controllers, admission or filters.
type view struct {
	past     *past
	revision kv.Revision
	lifetime context.Context
	cancel   context.CancelFunc

	// opening is a lock that is held while the view is opened. It is a semaphore, so that waiting for it can be
	// canceled.
	opening *semaphore.Weighted
	// time and handler are set by open. past.mu guards the write of handler.
	time    time.Time // zero if it is unknown
	handler *route.Handler

	// The fields below are guarded by past.mu.
	users int
	used  time.Time
}

func newView(p *past, revision kv.Revision) *view {
	v := &view{past: p, revision: revision, opening: semaphore.NewWeighted(1)}
	v.lifetime, v.cancel = context.WithCancel(p.settings.lifetime)
	return v
}

// open loads the definitions of the view, unless it is already open.
func (v *view) open(ctx context.Context) error {
	if err := v.opening.Acquire(ctx, 1); err != nil {
		return err
	}
	defer v.opening.Release(1)
	if v.handler != nil {
		return nil
	}
	history := v.past.history
	backend, err := history.View(ctx, v.revision)
	if err != nil {
		return err
	}
	at, err := history.TimeOf(v.revision)
	if err != nil {
		return err
	}
	handler, err := v.newHandler(ctx, backend)
	if err != nil {
		return fmt.Errorf("read the state at revision %d: %w", v.revision, err)
	}
	v.past.mu.Lock()
	defer v.past.mu.Unlock()
	v.time, v.handler = at, handler
	return nil
}

func (v *view) newHandler(ctx context.Context, backend kv.Backend) (*route.Handler, error) {
	env := *v.past.settings.env
	env.Storage = Storage{Backend: backend, Transformer: env.Storage.Transformer, Encodings: env.Storage.Encodings}
	s := *v.past.settings
	s.env, s.readOnly, s.lifetime = &env, true, v.lifetime
	s.pathPrefix += momentPrefix + revisionSegment + "/" + strconv.FormatInt(int64(v.revision), 10)
	resources, err := newResources(&s, newLoopbackAccess(), v.past.authorization, v.past.tokens, nil)
	if err != nil {
		return nil, err
	}
	if err := resources.definitions.Load(ctx); err != nil {
		return nil, err
	}
	api := newAPI(&s, resources, admission.Chain{}, v.past.authorization.authorizer, &controllerSet{})
	return newResourceHandler(&s, resources, api, &paths{catalog: resources.catalog}), nil
}
