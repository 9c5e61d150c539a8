package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/overlay"
)

// content describes the initial objects of a control plane. It is stored together with the cryptographic keys
// of the control plane, and is immutable.
type content struct {
	// Source is the state that a fork was created from; nil if the control plane is not a fork.
	Source *layer `json:"source,omitempty"`
	// Layers are the states below the objects of a fork. The first layer is Source; the others are the
	// layers of the source. Layers is empty if the objects of the source were copied.
	Layers []layer `json:"layers,omitempty"`
	// Template is the version of the template below the layers; "" if there is no template.
	Template string `json:"template,omitempty"`
	// TemplateUID is the UID of the control plane that was created with the template; "" means this control
	// plane.
	TemplateUID types.UID `json:"templateUID,omitempty"`
	// Created is the creation time of the objects of the template.
	Created time.Time `json:"created"`
}

// layer is the state of a control plane at a revision.
type layer struct {
	// UID is the UID of the control plane; "" means the root control plane.
	UID      types.UID   `json:"uid,omitempty"`
	Revision kv.Revision `json:"revision"`
}

// base returns the base of a control plane, which combines its layers and its template. It returns nil if
// there are no layers and no template.
func (f *Fleet) base(ctx context.Context, uid types.UID, c *content) (overlay.Base, error) {
	var base overlay.Base
	if c.Template != "" {
		template, err := f.templateBase(ctx, uid, c)
		if err != nil {
			return nil, err
		}
		base = template
	}
	for i := len(c.Layers) - 1; i >= 0; i-- {
		from, to := f.prefixOf(c.Layers[i].UID), f.prefixOf(uid)
		if i > 0 {
			to = f.prefixOf(c.Layers[i-1].UID)
		}
		base = f.newForkBase(overlay.NewLayer(f.config.Backend.Backend, from, c.Layers[i].Revision, base), from, to)
	}
	return base, nil
}

// templateBase returns the template of a control plane as a base.
func (f *Fleet) templateBase(ctx context.Context, uid types.UID, c *content) (*templateBase, error) {
	found, err := f.templates.get(ctx, c.Template)
	if err == nil && found == nil {
		err = fmt.Errorf("the default objects of the control plane are missing in the store: %s", f.templates.key(c.Template))
	}
	if err != nil {
		return nil, err
	}
	if c.TemplateUID != "" {
		uid = c.TemplateUID
	}
	return &templateBase{Entries: found, fleet: f, uid: uid, created: c.Created}, nil
}

// prefixOf returns the prefix of the objects of a control plane, with a slash at its end. The UID "" means the
// root control plane.
func (f *Fleet) prefixOf(uid types.UID) string {
	if uid == "" {
		return f.config.RootPrefix
	}
	return f.objectPrefix(uid) + "/"
}

// checkLayers returns a *sourceError if the store no longer has the states in Layers.
func (f *Fleet) checkLayers(ctx context.Context, c *content) error {
	for _, l := range c.Layers {
		_, _, err := f.config.Backend.Backend.Get(ctx, f.prefixOf(l.UID)+"x", l.Revision)
		if errors.Is(err, kv.ErrCompacted) {
			return &sourceError{"SourceLost", fmt.Sprintf("the store no longer has revision %d of the source, because it was restored from a copy without the states of forks; delete this fork", l.Revision)}
		}
		if err != nil {
			return fmt.Errorf("read the source of the fork: %w", err)
		}
	}
	return nil
}

// attach attaches the base of a control plane to its prefix, and sets session.base. seeded reports whether
// the control plane contains exactly the objects of the current template.
func (f *Fleet) attach(ctx context.Context, s *session, uid types.UID, c *content) (seeded bool, err error) {
	if err := f.checkLayers(ctx, c); err != nil {
		return false, err
	}
	base, err := f.base(ctx, uid, c)
	if base == nil || err != nil {
		return false, err
	}
	prefix := f.prefixOf(uid)
	f.config.Backend.Attach(prefix, base)
	s.base = base
	if c.Source != nil || c.Template != f.templates.current() {
		return false, nil
	}
	written, err := f.config.Env.Storage.Backend.Range(ctx, kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix), Limit: 1})
	return err == nil && len(written.Entries) == 0, err
}
