package host

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/controlplane"
)

// planes is the set of control planes of a host. It is safe for concurrent use.
type planes struct {
	mu struct {
		sync.Mutex
		env      *controlplane.Env                     // nil before the host has opened its store
		byPrefix map[string]*controlplane.ControlPlane // by the prefix with a slash at both ends
		closed   bool
	}
}

// setEnv allows control planes to be opened.
func (p *planes) setEnv(env *controlplane.Env) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.env = env
}

// open returns a new control plane below a prefix. It does not block.
func (p *planes) open(prefix string, options controlplane.Options) (*controlplane.ControlPlane, error) {
	folder := "/" + strings.Trim(prefix, "/") + "/"
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return nil, controlplane.ErrClosed
	}
	if p.mu.env == nil {
		return nil, errors.New("the host is not running yet: open control planes after Config.OnServing has been called")
	}
	for other, plane := range p.mu.byPrefix {
		if plane.Closed() {
			delete(p.mu.byPrefix, other)
			continue
		}
		if strings.HasPrefix(other, folder) || strings.HasPrefix(folder, other) {
			return nil, fmt.Errorf("open a control plane at %s: there is already one at %s", prefix, strings.TrimSuffix(other, "/"))
		}
	}
	opened, err := controlplane.New(p.mu.env, prefix, options)
	if err != nil {
		return nil, err
	}
	if p.mu.byPrefix == nil {
		p.mu.byPrefix = map[string]*controlplane.ControlPlane{}
	}
	p.mu.byPrefix[folder] = opened
	return opened, nil
}

// all returns the control planes. Callers do not hold the lock while they use the control planes, because a
// control plane may wait for another control plane that calls all.
func (p *planes) all() []*controlplane.ControlPlane {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.mu.byPrefix))
}

// identityChanged publishes the changed keys and certificates of the host.
func (p *planes) identityChanged() error {
	var errs []error
	for _, plane := range p.all() {
		errs = append(errs, plane.IdentityChanged())
	}
	return errors.Join(errs...)
}

// defines reports whether any control plane defines a custom resource.
func (p *planes) defines(resource schema.GroupResource) bool {
	return slices.ContainsFunc(p.all(), func(plane *controlplane.ControlPlane) bool { return plane.Defines(resource) })
}

// close closes all control planes and waits for their goroutines. Later calls of open fail.
func (p *planes) close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	for _, plane := range p.all() {
		plane.Close()
	}
}
