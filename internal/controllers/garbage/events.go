package garbage

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage/kv"
)

const (
	// searchInterval is the minimum interval between searches for owners in other namespaces. maxSearched is
	// the maximum number of objects that a search reads, and searchPage is the number of objects per read.
	searchInterval = time.Second
	maxSearched    = 10_000
	searchPage     = 512
)

// warnIfInOtherNamespace records an event for a dependent whose owner is in another namespace, so that users
// can find out why the dependent was deleted. To limit the cost, it ignores owners whose deletion was observed,
// and searches at most once per searchInterval.
func (w *worker) warnIfInOtherNamespace(ctx context.Context, p *storedObject, resource changes.Resource, owner changes.Owner) {
	if !resource.Namespaced || w.deletedOwners.has(owner.UID) || !w.searchAllowed() {
		return
	}
	found, err := w.existsInAnyNamespace(ctx, resource, owner)
	if err != nil && ctx.Err() == nil {
		w.config.Logger.Warn("search other namespaces for an owner", "object", p.String(), "err", err)
	}
	if found {
		w.recordEvent(ctx, p, owner)
	}
}

// searchAllowed reports whether searchInterval has passed since the last search. If so, it records the current
// time as the time of the last search, and the caller must search.
func (w *worker) searchAllowed() bool {
	now := time.Now().UnixNano()
	last := w.lastSearch.Load()
	return now-last >= int64(searchInterval) && w.lastSearch.CompareAndSwap(last, now)
}

// existsInAnyNamespace reports whether an owner exists in any namespace. It reads at most maxSearched objects.
func (w *worker) existsInAnyNamespace(ctx context.Context, resource changes.Resource, owner changes.Owner) (bool, error) {
	next := resource.Key(w.config.Prefix, "", "")
	end := kv.PrefixEnd(next)
	for range maxSearched / searchPage {
		page, err := resource.Backend.Range(ctx, kv.RangeRequest{Start: next, End: end, Limit: searchPage})
		if err != nil {
			return false, err
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			if !strings.HasSuffix(e.Key, "/"+owner.Name) {
				continue
			}
			if meta, err := changes.ParseMeta(w.config.Decrypt.Value(ctx, e.Key, e.Value)); err == nil && meta.UID == owner.UID {
				return true, nil
			}
		}
		if !page.More || len(page.Entries) == 0 {
			break
		}
		next = page.Entries[len(page.Entries)-1].Key + "\x00"
	}
	return false, nil
}

// recordEvent creates the event for a dependent whose owner is in another namespace, or increments the count of
// the existing event. It only logs errors.
func (w *worker) recordEvent(ctx context.Context, p *storedObject, owner changes.Owner) {
	gvk, now := p.resource.Version.GVK, metav1.NewTime(simulation.Now(ctx))
	about := corev1.ObjectReference{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: p.name.Namespace, Name: p.name.Name, UID: types.UID(p.meta.UID),
	}
	name := types.NamespacedName{Namespace: p.name.Namespace, Name: eventName(p, owner)}
	if name.Namespace == "" {
		name.Namespace = metav1.NamespaceDefault
	}
	_, err := w.events.Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		InvolvedObject: about, Type: corev1.EventTypeWarning, Reason: "OwnerRefInvalidNamespace",
		Message: fmt.Sprintf("ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
			owner.APIVersion, owner.Kind, p.name.Namespace, owner.Name, owner.UID, p.name.Namespace),
		Source: corev1.EventSource{Component: Name}, ReportingController: Name, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	})
	if apierrors.IsAlreadyExists(err) {
		_, err = w.events.Update(ctx, name, func(e *corev1.Event) error {
			e.Count, e.LastTimestamp = e.Count+1, now
			return nil
		})
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) && ctx.Err() == nil {
		w.config.Logger.Warn("record the event for an owner in another namespace", "object", p.String(), "err", err)
	}
}

// eventName returns the name of the event for a dependent and its owner. The name starts with the name of the
// dependent, unless the result would be an invalid event name.
func eventName(p *storedObject, owner changes.Owner) string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(p.meta.UID + "\x00" + owner.UID)) // never returns an error
	name := fmt.Sprintf("%s.%016x", p.name.Name, hash.Sum64())
	if len(apivalidation.NameIsDNSSubdomain(name, false)) > 0 {
		return fmt.Sprintf("%016x", hash.Sum64())
	}
	return name
}
