package fleet

import (
	"context"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// newReflectors creates the reflectors of the ControlPlane objects and of their Secrets.
func (f *Fleet) newReflectors() error {
	objects, err := f.objects.Collection()
	if err != nil {
		return err
	}
	secrets, err := f.secrets.Collection()
	if err != nil {
		return err
	}
	metrics := f.config.Env.Telemetry.Metrics.Storage.Reflectors
	f.follower, err = reflector.New(reflector.Config{
		Name: "control planes", Collection: objects, Replace: f.replaceObjects, Apply: f.applyObjects, Logger: f.logger, Metrics: metrics,
	})
	if err != nil {
		return err
	}
	f.tokens, err = reflector.New(reflector.Config{
		Name: "kubeconfigs of control planes", Collection: secrets, Namespace: secretNamespace,
		Fields:  fields.OneTermEqualSelector("type", string(SecretType)),
		Replace: f.replaceTokens, Apply: f.applyTokens, Logger: f.logger, Metrics: metrics,
	})
	return err
}

// replaceObjects implements reflector.Config.Replace. It removes a control plane only if the list contains no
// object with its name, or a readable object with its name but another UID. An unreadable object must not cause
// the deletion of the stored objects. It also keeps control planes whose objects are newer than the list,
// because Create may have added them.
func (f *Fleet) replaceObjects(_ context.Context, list *rest.List) error {
	listed := map[string]bool{}
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		listed[record.Name().Name] = true
		if object := f.decode(record); object != nil {
			f.update(object) // replaces a control plane with another UID
		}
	}
	for _, p := range f.all() {
		if !listed[p.key.name] && p.revision <= list.Revision {
			f.removed(p)
		}
	}
	return nil
}

// applyObjects implements reflector.Config.Apply.
func (f *Fleet) applyObjects(_ context.Context, events []rest.Event) error {
	for i := range events {
		object := f.decode(events[i].Record)
		switch {
		case object == nil:
		case events[i].Type != watch.Deleted:
			f.update(object)
		default:
			f.mu.RLock()
			p := f.mu.planes[object.Name]
			f.mu.RUnlock()
			if p != nil && p.key.uid == object.UID {
				f.removed(p)
			}
		}
	}
	return nil
}

// decode returns the object of a record. If it cannot be decoded, decode logs the error and returns nil.
func (f *Fleet) decode(record *codec.Record) *controlplanes.ControlPlane {
	obj, err := record.Shared()
	if err == nil {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			var object *controlplanes.ControlPlane
			if object, err = controlplanes.FromUnstructured(u); err == nil {
				return object
			}
		}
	}
	f.logger.Error("a control plane cannot be decoded and is ignored", "name", record.Name().Name, "err", err)
	return nil
}

// update applies the state of an object, and enqueues the object for reconciliation. Objects that arrive before
// the existing objects are known are reconciled by awaitSync. Create and the reflector call update
// concurrently, so the object can be older than the known state, or belong to a deleted control plane with the
// same name. Such an object is ignored.
func (f *Fleet) update(object *controlplanes.ControlPlane) {
	key := planeKey{object.Name, object.UID}
	revision, _ := strconv.ParseInt(object.ResourceVersion, 10, 64) // stored objects have a valid resourceVersion
	f.mu.Lock()
	p := f.mu.planes[key.name]
	var replaced *plane
	switch {
	case p != nil && p.key != key && revision < p.revision:
		f.mu.Unlock()
		return
	case p == nil || p.key != key:
		replaced = p
		key = key.clone()
		p = newPlane(f, key)
		p.revision = revision
		f.mu.planes[key.name] = p
	}
	f.mu.Unlock()
	if replaced != nil {
		f.retire(replaced)
	}
	if reason := p.set(object, revision); reason != nil {
		f.running.Go(func() { p.close() })
	}
	f.enqueue(key)
}

// enqueue enqueues a control plane for reconciliation, unless awaitSync will reconcile it.
func (f *Fleet) enqueue(key planeKey) {
	select {
	case <-f.synced:
		f.queue.Add(key)
	default:
	}
}

// removed handles the deletion of the object of p.
func (f *Fleet) removed(p *plane) {
	f.mu.Lock()
	if f.mu.planes[p.key.name] == p {
		delete(f.mu.planes, p.key.name)
	}
	f.mu.Unlock()
	f.retire(p)
}

// retire closes a control plane whose object was deleted, and deletes its keys. Even if another server has
// deleted the keys, this server might have written keys until it closed the control plane.
func (f *Fleet) retire(p *plane) {
	p.remove()
	f.running.Go(func() {
		p.close()
		if err := f.deleteKeys(f.lifetime, p.key.uid); err != nil && f.lifetime.Err() == nil {
			f.logger.Error("objects of a deleted control plane remain in the store until the next start", "name", p.key.name, "err", err)
		}
	})
}

// replaceTokens implements reflector.Config.Replace.
func (f *Fleet) replaceTokens(_ context.Context, list *rest.List) error {
	hashes := map[types.UID]tokenHash{}
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		if owner, hash, _, ok := f.decodeToken(record); ok {
			hashes[owner] = hash
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.hashes = hashes
	return nil
}

// applyTokens implements reflector.Config.Apply. If a Secret was deleted or no longer contains its token, the
// control plane is reconciled, which creates a new token.
func (f *Fleet) applyTokens(_ context.Context, events []rest.Event) error {
	for i := range events {
		owner, hash, name, ok := f.decodeToken(events[i].Record)
		if !ok {
			owner = ""
		}
		if events[i].Type == watch.Modified {
			f.forgetToken(events[i].Record.Name().Name, owner)
		}
		if !ok {
			continue
		}
		deleted := events[i].Type == watch.Deleted
		f.mu.Lock()
		if deleted {
			delete(f.mu.hashes, owner)
		} else {
			f.mu.hashes[owner] = hash
		}
		f.mu.Unlock()
		if deleted {
			f.enqueue(planeKey{name, owner})
		}
	}
	return nil
}

// forgetToken invalidates the token of the control plane whose name is in the name of the Secret, unless owner
// is the UID of this control plane. owner is "" if the Secret no longer contains a token of the fleet. The control
// plane is reconciled, which creates a new token.
func (f *Fleet) forgetToken(secret string, owner types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.mu.planes[strings.TrimSuffix(secret, secretSuffix)]; p != nil && p.key.uid != owner {
		delete(f.mu.hashes, p.key.uid)
		f.enqueue(p.key)
	}
}

// decodeToken returns the UID and the name of the control plane that owns a Secret, and the hash of the token
// in the Secret. ok is false if the Secret does not belong to the fleet or cannot be decoded.
func (f *Fleet) decodeToken(record *codec.Record) (owner types.UID, hash tokenHash, name string, ok bool) {
	obj, err := record.Shared()
	if err != nil {
		f.logger.Error("the kubeconfig of a control plane cannot be decoded and is ignored", "secret", record.Name().String(), "err", err)
		return "", hash, "", false
	}
	secret, ok := obj.(*corev1.Secret)
	if !ok || secret.Type != SecretType || len(secret.Data[tokenKey]) == 0 {
		return "", hash, "", false
	}
	if owner, ok = ownerOf(secret); !ok {
		return "", hash, "", false
	}
	for _, reference := range secret.OwnerReferences {
		if reference.UID == owner {
			name = reference.Name
		}
	}
	return cloneUID(owner), hashToken(string(secret.Data[tokenKey])), name, secret.Name == secretOf(name).Name
}
