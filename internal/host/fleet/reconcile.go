package fleet

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/controllers/work"
)

// obstacleDelay is the delay before a control plane with an obstacle is reconciled again.
const obstacleDelay = 30 * time.Second

// reconcile makes the finalizer, the Secret and the status of a ControlPlane object match its spec, or
// deletes the control plane. It implements work.Config.Sync.
func (f *Fleet) reconcile(ctx context.Context, key planeKey) error {
	f.mu.RLock()
	p := f.mu.planes[key.name]
	f.mu.RUnlock()
	if p == nil || p.key != key {
		return nil // the event of the object causes another call
	}
	stored, err := f.objects.Get(ctx, types.NamespacedName{Name: key.name})
	switch {
	case apierrors.IsNotFound(err), err == nil && stored.GetUID() != key.uid:
		f.removed(p) // Create adds a control plane even if the event of its deletion has already arrived
		return nil
	case err != nil:
		return err
	}
	object, err := controlplanes.FromUnstructured(stored)
	switch {
	case err != nil:
		return err
	case object.DeletionTimestamp != nil:
		return f.finalize(ctx, p, object)
	}
	if object.Status.Phase == "" { // a new control plane
		f.templates.prepareOnce()
	}
	if err := f.ensureFinalizer(ctx, object); err != nil {
		return err
	}
	obstacle, err := f.prepare(ctx, p, object)
	if err != nil {
		return err
	}
	if err := f.updateStatus(ctx, p, f.status(p, object, obstacle)); err != nil {
		p.reportAgain()
		return err
	}
	if obstacle != nil {
		return work.RequeueAfter(obstacleDelay)
	}
	f.sourceReady(key.name)
	return nil
}

// obstacle is the reason why a control plane is not ready.
type obstacle struct{ reason, message string }

// prepare creates the Secret of a control plane, and the content of a fork. It returns an obstacle if the
// control plane cannot become ready until other objects change.
func (f *Fleet) prepare(ctx context.Context, p *plane, object *controlplanes.ControlPlane) (*obstacle, error) {
	if object.Spec.From != nil && (object.Status.SourceRevision == "" || p.opened() == nil) { // an open fork has its layers
		keys, err := f.ensureKeys(ctx, p.key, object.Spec.From)
		if err == nil {
			err = f.checkLayers(ctx, &keys.content)
		}
		if failed := (*sourceError)(nil); errors.As(err, &failed) {
			return &obstacle{failed.reason, failed.message}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("create the fork: %w", err)
		}
		object.Status.SourceRevision = strconv.FormatInt(int64(keys.Source.Revision), 10)
	}
	err := f.ensureSecret(ctx, object)
	if conflict := (*conflictError)(nil); errors.As(err, &conflict) {
		return &obstacle{"SecretConflict", conflict.message}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("create the kubeconfig: %w", err)
	}
	return nil, nil
}

// finalize deletes all objects of a control plane and its Secret, and then removes the finalizer from its
// ControlPlane object.
func (f *Fleet) finalize(ctx context.Context, p *plane, object *controlplanes.ControlPlane) error {
	p.remove()
	if !slices.Contains(object.Finalizers, controlplanes.Finalizer) {
		return nil // only other finalizers are left: everything has been deleted
	}
	if object.Status.Phase != controlplanes.Terminating {
		status := f.status(p, object, nil)
		if err := f.updateStatus(ctx, p, status); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	p.close()
	if err := f.deleteKeys(ctx, p.key.uid); err != nil {
		return err
	}
	if err := f.deleteSecret(ctx, object); err != nil {
		return err
	}
	_, err := f.objects.Update(ctx, types.NamespacedName{Name: object.Name}, func(current *unstructured.Unstructured) error {
		if current.GetUID() == object.UID {
			current.SetFinalizers(slices.DeleteFunc(current.GetFinalizers(), func(name string) bool { return name == controlplanes.Finalizer }))
		}
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// ensureFinalizer adds the finalizer again if a client has removed it.
func (f *Fleet) ensureFinalizer(ctx context.Context, object *controlplanes.ControlPlane) error {
	if slices.Contains(object.Finalizers, controlplanes.Finalizer) {
		return nil
	}
	_, err := f.objects.Update(ctx, types.NamespacedName{Name: object.Name}, func(current *unstructured.Unstructured) error {
		if current.GetUID() == object.UID && current.GetDeletionTimestamp() == nil {
			addFinalizer(current)
		}
		return nil
	})
	return err
}

// status returns the status of a control plane. obstacle is the reason why it is not ready, or nil.
func (f *Fleet) status(p *plane, object *controlplanes.ControlPlane, obstacle *obstacle) *controlplanes.Status {
	status := object.Status
	status.Conditions = slices.Clone(status.Conditions)
	if status.URL == "" || !f.config.Env.Storage.Shared { // servers that share an etcd cluster can have different addresses
		status.URL = f.url(object.Name)
	}
	secret := secretOf(object.Name)
	status.KubeconfigSecretRef = &controlplanes.SecretReference{Namespace: secret.Namespace, Name: secret.Name}
	ready := metav1.Condition{Type: controlplanes.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: object.Generation, Reason: "Serving"}
	status.Phase = controlplanes.Ready
	switch {
	case object.DeletionTimestamp != nil:
		status.Phase = controlplanes.Terminating
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Terminating", "the objects of the control plane are being deleted"
	case obstacle != nil:
		status.Phase, status.KubeconfigSecretRef = controlplanes.Pending, nil
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, obstacle.reason, obstacle.message
	case object.Spec.Paused:
		status.Phase = controlplanes.Paused
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Paused", "spec.paused is set"
	}
	meta.SetStatusCondition(&status.Conditions, ready)
	p.addUsage(&status)
	return &status
}

// updateStatus writes a status if it differs from the stored status.
func (f *Fleet) updateStatus(ctx context.Context, p *plane, status *controlplanes.Status) error {
	_, err := f.objects.Subresource("status").Update(ctx, types.NamespacedName{Name: p.key.name}, func(current *unstructured.Unstructured) error {
		object, err := controlplanes.FromUnstructured(current)
		if err != nil || object.UID != p.key.uid || reflect.DeepEqual(&object.Status, status) {
			return err
		}
		return controlplanes.SetStatus(current, status)
	})
	return err
}
