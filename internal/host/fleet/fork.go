package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/overlay"
)

// maxLayers is the maximum number of states below a fork. The number is limited because each state adds a
// lookup to a read. If a fork would have more layers, it copies all objects instead.
const maxLayers = 16

// sourceError reports that a fork cannot be created from the current state of its source. reason is used as the
// reason of the Ready condition.
type sourceError struct{ reason, message string }

func (e *sourceError) Error() string { return e.message }

// fork returns the content of a new fork. It pins the state of the source in the store, or copies the state.
// guard contains operations that the caller must add to the commit that completes the fork. The error is a
// *sourceError if the source does not exist, or has no state at the requested time.
func (f *Fleet) fork(ctx context.Context, p planeKey, source *controlplanes.Source) (begun content, guard []kv.Op, err error) {
	if source.Time != nil || source.ResourceVersion != "" {
		defer func() { err = expired(err) }() // not for the newest state: if it has expired, the next attempt uses a newer one
	}
	// The revision is read before the source is checked: if the source is not being deleted at the check, the
	// state at the revision is complete.
	revision, err := f.sourceRevision(ctx, source)
	if err != nil {
		return content{}, nil, err
	}
	from, below := types.UID(""), &keySet{} // the values for the root control plane
	if source.ControlPlane != "" {
		f.awaitSource(p, source.ControlPlane) // before the source is read, so that no event is missed
		defer func() {
			if err == nil {
				f.endAwait(p, source.ControlPlane)
			}
		}()
		if from, below, err = f.source(ctx, source.ControlPlane); err != nil {
			return content{}, nil, err
		}
		switch {
		case revision >= below.revision:
		case source.Time == nil && source.ResourceVersion == "":
			revision = below.revision // f.source has created the keys
		default:
			return content{}, nil, &sourceError{"SourceExpired", fmt.Sprintf("spec.from: the control plane %q did not exist at that time", source.ControlPlane)}
		}
	}
	begun.Source = &layer{from, revision}
	store := f.config.Backend.Backend
	layers := append([]layer{*begun.Source}, below.Layers...)
	if pinner, ok := f.pinner(); ok && len(layers) <= maxLayers {
		err := f.pin(ctx, pinner, p.uid, layers)
		if err == nil {
			begun.Layers, begun.Template, begun.TemplateUID, begun.Created = layers, below.Template, below.TemplateUID, below.Created
			if begun.Template != "" && begun.TemplateUID == "" {
				begun.TemplateUID = from
			}
			return begun, nil, nil
		}
		if !errors.Is(err, kv.ErrCompacted) || !f.hasHistory(from) {
			return content{}, nil, err
		}
		if store, err = f.config.Env.Storage.History.View(ctx, revision); err != nil {
			return content{}, nil, err
		}
	}
	guard, err = f.copySource(ctx, p, store, begun.Source, &below.content)
	return begun, guard, err
}

// expired converts an error for a revision that the store does not have into a *sourceError. It returns other
// errors unchanged.
func expired(err error) error {
	switch {
	case errors.Is(err, kv.ErrCompacted):
		return &sourceError{"SourceExpired", "spec.from: " + err.Error()}
	case errors.Is(err, kv.ErrFutureRevision):
		return &sourceError{"SourceInvalid", "spec.from: " + err.Error()}
	}
	return err
}

// hasHistory reports whether there is a history of a control plane. A history exists only for the root control
// plane, whose uid is "".
func (f *Fleet) hasHistory(uid types.UID) bool {
	return uid == "" && f.config.Env.Storage.History != nil
}

// pinner returns the store as a kv.Pinner. ok is false if the store cannot retain states.
func (f *Fleet) pinner() (kv.Pinner, bool) {
	p, ok := f.config.Backend.Backend.(kv.Pinner)
	return p, ok
}

// pin retains the layers of a fork. Other attempts, which may run at the same time, may have pinned other
// revisions; unpin releases all of them when the fork is deleted.
func (f *Fleet) pin(ctx context.Context, pinner kv.Pinner, uid types.UID, layers []layer) error {
	for _, l := range layers {
		if err := pinner.Pin(ctx, string(uid), f.prefixOf(l.UID), l.Revision); err != nil {
			return fmt.Errorf("retain the state of the source: %w", err)
		}
	}
	return nil
}

// awaitSource registers the fork p to be reconciled again when the control plane with the given name is ready.
func (f *Fleet) awaitSource(p planeKey, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if waiting := f.mu.waiting[name]; !slices.Contains(waiting, p) {
		f.mu.waiting[name] = append(waiting, p)
	}
}

// endAwait reverts awaitSource.
func (f *Fleet) endAwait(p planeKey, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	waiting := slices.DeleteFunc(f.mu.waiting[name], func(x planeKey) bool { return x == p })
	if f.mu.waiting[name] = waiting; len(waiting) == 0 {
		delete(f.mu.waiting, name)
	}
}

// sourceReady enqueues the forks that wait for the control plane with the given name.
func (f *Fleet) sourceReady(name string) {
	f.mu.Lock()
	waiting := f.mu.waiting[name]
	delete(f.mu.waiting, name)
	f.mu.Unlock()
	for _, p := range waiting {
		f.queue.Add(p)
	}
}

// source returns the UID and the keys of the control plane with the given name. It returns a *sourceError if
// the control plane does not exist or is not ready.
func (f *Fleet) source(ctx context.Context, name string) (types.UID, *keySet, error) {
	missing := &sourceError{"SourceNotFound", fmt.Sprintf("spec.from: there is no control plane %q", name)}
	p, err := f.find(ctx, name)
	if err != nil {
		return "", nil, err
	}
	if p == nil {
		return "", nil, missing
	}
	keys, err := f.readKeys(ctx, p.key)
	if err != nil {
		return "", nil, err
	}
	// The lock prevents a concurrent deletion in this process, which acquires it before it deletes the keys.
	// The object is read because another server may delete the keys.
	if err := p.opening.Acquire(ctx, 1); err != nil {
		return "", nil, err
	}
	defer p.opening.Release(1)
	p.mu.Lock()
	removed, isFork := p.mu.removed, p.mu.spec.From != nil
	p.mu.Unlock()
	object, err := f.objects.Get(ctx, types.NamespacedName{Name: name})
	switch {
	case removed, apierrors.IsNotFound(err), err == nil && (object.GetUID() != p.key.uid || object.GetDeletionTimestamp() != nil):
		return "", nil, missing
	case err != nil:
		return "", nil, err
	case keys == nil && isFork:
		return "", nil, &sourceError{"SourceNotReady", fmt.Sprintf("spec.from: the control plane %q is not ready", name)}
	case keys == nil:
		if keys, err = f.ensureKeys(ctx, p.key, nil); err != nil {
			return "", nil, err
		}
	}
	return p.key.uid, keys, nil
}

// sourceRevision returns the revision of the requested state of a source.
func (f *Fleet) sourceRevision(ctx context.Context, source *controlplanes.Source) (kv.Revision, error) {
	switch {
	case source.ResourceVersion != "":
		n, err := strconv.ParseInt(source.ResourceVersion, 10, 64)
		return kv.Revision(n), err
	case source.Time == nil:
		return f.config.Backend.CurrentRevision(ctx)
	case source.Time.After(f.now()):
		return 0, &sourceError{"SourceInvalid", "spec.from.time is in the future"}
	case source.ControlPlane == "" && f.hasHistory(""):
		return f.config.Env.Storage.History.RevisionAt(ctx, source.Time.Time) // the history is more precise
	}
	return f.config.Backend.RevisionAt(ctx, source.Time.Time)
}

// unpin releases the states that a fork retained.
func (f *Fleet) unpin(ctx context.Context, uid types.UID) error {
	pinner, ok := f.pinner()
	if !ok {
		return nil
	}
	if err := pinner.Unpin(ctx, string(uid)); err != nil {
		return fmt.Errorf("release the state of the source: %w", err)
	}
	return nil
}

// forkBase is the state of a source, presented as the base of a fork. It excludes the objects that describe the
// running server of the source, and re-encrypts values for their keys in the fork.
type forkBase struct {
	overlay.Base
	fleet *Fleet
	// from and to are the prefixes of the source and of the fork.
	from, to string
	// excluded are the prefixes of the relative keys that the fork does not contain.
	excluded []string
}

func (f *Fleet) newForkBase(source overlay.Base, from, to string) *forkBase {
	excluded := controlplane.TransientPrefixes()
	if from == f.config.RootPrefix {
		excluded = append(excluded, controlPlaneKeys)
	}
	return &forkBase{source, f, from, to, excluded}
}

// Get implements overlay.Base.
func (b *forkBase) Get(ctx context.Context, key string) (*kv.Entry, error) {
	if excluded, err := b.excludes(ctx, key); excluded || err != nil {
		return nil, err
	}
	e, err := b.Base.Get(ctx, key)
	if e == nil || err != nil {
		return nil, err
	}
	return e, b.encrypt(ctx, e)
}

// Scan implements overlay.Base.
func (b *forkBase) Scan(start, end string, size int) overlay.Cursor {
	return &forkCursor{b, b.Base.Scan(start, end, size)}
}

// forkCursor skips the excluded entries, and re-encrypts the others.
type forkCursor struct {
	base   *forkBase
	source overlay.Cursor
}

// Next implements overlay.Cursor.
func (c *forkCursor) Next(ctx context.Context) (*kv.Entry, error) {
	for {
		e, err := c.source.Next(ctx)
		if e == nil || err != nil {
			return nil, err
		}
		excluded, err := c.base.excludes(ctx, e.Key)
		if err != nil {
			return nil, err
		}
		if !excluded {
			return e, c.base.encrypt(ctx, e)
		}
	}
}

// Count implements overlay.Base.
func (b *forkBase) Count(ctx context.Context, start, end string) (int64, error) {
	total, err := b.Base.Count(ctx, start, end)
	if err != nil || total == 0 {
		return 0, err
	}
	for _, prefix := range b.excluded {
		from, to := max(start, prefix), kv.PrefixEnd(prefix)
		if end != "" {
			to = min(end, to)
		}
		if from >= to {
			continue
		}
		excluded, err := b.Base.Count(ctx, from, to)
		if err != nil {
			return 0, err
		}
		total -= excluded
	}
	if b.from != b.fleet.config.RootPrefix {
		return total, nil
	}
	kubeconfigs, err := b.countKubeconfigs(ctx, start, end)
	return total - kubeconfigs, err
}

// Prefixes of relative keys in the root control plane.
const (
	controlPlaneKeys = "mainstay.dev/controlplanes/"
	secretKeys       = "secrets/" + secretNamespace + "/"
)

// excludes reports whether the fork does not contain the object with a relative key. Kubeconfigs of control
// planes are excluded, because they would give the users of a fork access to these control planes.
func (b *forkBase) excludes(ctx context.Context, key string) (bool, error) {
	for _, prefix := range b.excluded {
		if strings.HasPrefix(key, prefix) {
			return true, nil
		}
	}
	name, ok := strings.CutPrefix(key, secretKeys)
	if !ok || b.from != b.fleet.config.RootPrefix {
		return false, nil
	}
	if name, ok = strings.CutSuffix(name, secretSuffix); !ok {
		return false, nil
	}
	owner, err := b.Base.Get(ctx, controlPlaneKeys+name)
	return owner != nil, err
}

// countKubeconfigs returns the number of excluded Secrets in a range.
func (b *forkBase) countKubeconfigs(ctx context.Context, start, end string) (n int64, err error) {
	from, to := max(start, secretKeys), kv.PrefixEnd(secretKeys)
	if end != "" {
		to = min(end, to)
	}
	if from >= to {
		return 0, nil
	}
	secrets := b.Base.Scan(from, to, 1000)
	for {
		e, err := secrets.Next(ctx)
		if e == nil || err != nil {
			return n, err
		}
		excluded, err := b.excludes(ctx, e.Key)
		if err != nil {
			return 0, err
		}
		if excluded {
			n++
		}
	}
}

// encrypt encrypts the value of an entry for its key in the fork, because the encryption authenticates keys.
func (b *forkBase) encrypt(ctx context.Context, e *kv.Entry) error {
	if b.fleet.config.Env.Storage.Transformer == nil {
		return nil
	}
	to := b.to + e.Key
	resource, _ := b.fleet.config.Keys.Resource(to)
	transformer := b.fleet.transformerOf(resource)
	plain, _, err := transformer.FromStorage(ctx, e.Value, b.from+e.Key)
	if err == nil {
		e.Value, err = transformer.ToStorage(ctx, plain, to)
	}
	if err != nil {
		return fmt.Errorf("encrypt an object of the source for the fork: %w", err)
	}
	return nil
}
