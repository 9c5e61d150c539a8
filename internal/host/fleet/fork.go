package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/overlay"
)

// sourceError reports that a fork cannot begin with its source now. reason is the reason of the condition Ready.
type sourceError struct{ reason, message string }

func (e *sourceError) Error() string { return e.message }

// fork returns the content of a new fork, and pins it in the store. The error is a *sourceError if the source does not
// exist, or has no state at the requested time.
func (f *Fleet) fork(ctx context.Context, uid types.UID, source *controlplanes.Source) (content, error) {
	pinner, ok := f.config.Backend.Backend.(kv.Pinner)
	if !ok {
		return content{}, &sourceError{"SourceUnsupported", "spec.from requires the embedded store, which can retain the state of the source; etcd cannot"}
	}
	below, from := content{}, types.UID("")
	if source.ControlPlane != "" {
		var err error
		if from, below, err = f.source(ctx, source.ControlPlane); err != nil {
			return content{}, err
		}
	}
	revision, err := f.sourceRevision(ctx, source, &below)
	if err != nil {
		return content{}, err
	}
	begun := content{Layers: append([]layer{{from, revision}}, below.Layers...), Template: below.Template, TemplateUID: below.TemplateUID, Created: below.Created}
	if begun.Template != "" && begun.TemplateUID == "" {
		begun.TemplateUID = from
	}
	// An interrupted attempt may have pinned another revision.
	if err := pinner.Unpin(ctx, string(uid)); err != nil {
		return content{}, err
	}
	for _, l := range begun.Layers {
		if err := pinner.Pin(ctx, string(uid), f.prefixOf(l.UID), l.Revision); err != nil {
			return content{}, fmt.Errorf("retain the state of the source: %w", err)
		}
	}
	return begun, nil
}

// source returns the UID of the control plane of a name, and the content with which it began.
func (f *Fleet) source(ctx context.Context, name string) (types.UID, content, error) {
	missing := &sourceError{"SourceNotFound", fmt.Sprintf("spec.from: there is no control plane %q", name)}
	p, err := f.find(ctx, name)
	if err != nil {
		return "", content{}, err
	}
	if p == nil {
		return "", content{}, missing
	}
	p.mu.Lock()
	removed, isFork := p.mu.removed, p.mu.spec.From != nil
	p.mu.Unlock()
	if removed {
		return "", content{}, missing
	}
	keys, err := f.readKeys(ctx, p.key)
	switch {
	case err != nil:
		return "", content{}, err
	case keys == nil && isFork:
		return "", content{}, &sourceError{"SourceNotReady", fmt.Sprintf("spec.from: the control plane %q is not ready", name)}
	case keys == nil:
		keys, err = f.ensureKeys(ctx, p.key, nil)
	}
	if err != nil {
		return "", content{}, err
	}
	return p.key.uid, keys.content, nil
}

// sourceRevision returns the revision of the state of a source that began with the given content.
func (f *Fleet) sourceRevision(ctx context.Context, source *controlplanes.Source, begun *content) (kv.Revision, error) {
	if source.Time == nil {
		return f.config.Backend.CurrentRevision(ctx)
	}
	at := source.Time.Time
	revision, err := f.config.Backend.RevisionAt(ctx, at)
	switch {
	case errors.Is(err, kv.ErrCompacted):
		return 0, &sourceError{"SourceExpired", fmt.Sprintf("spec.from.time: the store has no history of %s", at.UTC().Format(time.RFC3339))}
	case err != nil:
		return 0, err
	case at.Before(begun.Created), len(begun.Layers) > 0 && revision < begun.Layers[0].Revision:
		return 0, &sourceError{"SourceExpired", fmt.Sprintf("spec.from.time: the control plane %q did not exist at %s", source.ControlPlane, at.UTC().Format(time.RFC3339))}
	}
	return revision, nil
}

// unpin releases the states that a fork retained.
func (f *Fleet) unpin(ctx context.Context, uid types.UID) error {
	pinner, ok := f.config.Backend.Backend.(kv.Pinner)
	if !ok {
		return nil
	}
	if err := pinner.Unpin(ctx, string(uid)); err != nil {
		return fmt.Errorf("release the state of the source: %w", err)
	}
	return nil
}

// forkBase is the state of a control plane as the base of a fork. Its keys are those of the fork, and it does not have the
// objects that belong to the running server of the source.
type forkBase struct {
	*overlay.Layer
	fleet *Fleet
	// from and to are the prefixes of the source and of the fork.
	from, to string
}

// Get implements overlay.Base.
func (b *forkBase) Get(ctx context.Context, key string) (*kv.Entry, error) {
	if excluded, err := b.excludes(ctx, key); excluded || err != nil {
		return nil, err
	}
	e, err := b.Layer.Get(ctx, key)
	if e == nil || err != nil {
		return nil, err
	}
	return e, b.encrypt(ctx, e)
}

// Scan implements overlay.Base.
func (b *forkBase) Scan(start, end string, size int) overlay.Cursor {
	return &forkCursor{b, b.Layer.Scan(start, end, size)}
}

// forkCursor skips the entries that are not copied.
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
	total, err := b.Layer.Count(ctx, start, end)
	if err != nil || total == 0 {
		return 0, err
	}
	for _, prefix := range b.excludedPrefixes() {
		from, to := max(start, prefix), kv.PrefixEnd(prefix)
		if end != "" {
			to = min(end, to)
		}
		if from >= to {
			continue
		}
		excluded, err := b.Layer.Count(ctx, from, to)
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

// The prefixes of relative keys of the root control plane.
const (
	controlPlaneKeys = "mainstay.dev/controlplanes/"
	secretKeys       = "secrets/" + secretNamespace + "/"
)

// excludedPrefixes returns prefixes of relative keys that are not copied.
func (b *forkBase) excludedPrefixes() []string {
	prefixes := controlplane.TransientPrefixes()
	if b.from == b.fleet.config.RootPrefix {
		prefixes = append(prefixes, controlPlaneKeys)
	}
	return prefixes
}

// excludes reports whether a relative key is not copied. Kubeconfigs of control planes are excluded, because they would
// give the users of a fork access to these control planes.
func (b *forkBase) excludes(ctx context.Context, key string) (bool, error) {
	for _, prefix := range b.excludedPrefixes() {
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
	owner, err := b.Layer.Get(ctx, controlPlaneKeys+name)
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
	secrets := b.Layer.Scan(from, to, 1000)
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
