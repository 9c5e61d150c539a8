package storageversions

import (
	"context"
	"fmt"
	"slices"

	internalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/builtin/apiserverinternal"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/simulation"
)

// Resource returns the resource of StorageVersions.
func Resource() schema.GroupVersionResource {
	return internalv1alpha1.SchemeGroupVersion.WithResource("storageversions")
}

// writer writes StorageVersions.
type writer struct {
	versions, status *loopback.Client[*internalv1alpha1.StorageVersion]
}

func newWriter(access *loopback.Access) writer {
	versions := loopback.For[*internalv1alpha1.StorageVersion](access, Resource())
	return writer{versions: versions, status: versions.Subresource("status")}
}

// updateServers updates the entries of a StorageVersion with change. It returns a NotFound error if the
// StorageVersion does not exist.
func (w writer) updateServers(ctx context.Context, name string, change func([]internalv1alpha1.ServerStorageVersion) []internalv1alpha1.ServerStorageVersion) (*internalv1alpha1.StorageVersion, error) {
	updated, err := w.status.Update(ctx, types.NamespacedName{Name: name}, func(v *internalv1alpha1.StorageVersion) error {
		v.Status.StorageVersions = change(v.Status.StorageVersions)
		setCommonVersion(v, metav1.NewTime(simulation.Now(ctx)))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("update the storage version %s: %w", name, err)
	}
	return updated, nil
}

// removeServers removes the entries of the servers that remove selects. It deletes the StorageVersion if no
// entries remain.
func (w writer) removeServers(ctx context.Context, name string, remove func(serverID string) bool) error {
	left, err := w.updateServers(ctx, name, func(servers []internalv1alpha1.ServerStorageVersion) []internalv1alpha1.ServerStorageVersion {
		return slices.DeleteFunc(servers, func(s internalv1alpha1.ServerStorageVersion) bool { return remove(s.APIServerID) })
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || len(left.Status.StorageVersions) > 0 {
		return err
	}
	asItWas := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &left.UID, ResourceVersion: &left.ResourceVersion}}
	err = w.versions.Delete(ctx, types.NamespacedName{Name: name}, asItWas)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // conflict: a server has reported concurrently
		return nil
	}
	return fmt.Errorf("delete the storage version %s, which has no entries: %w", name, err)
}

// setCommonVersion sets the common encoding version and the condition that reports it, with kube-apiserver's
// messages.
func setCommonVersion(v *internalv1alpha1.StorageVersion, now metav1.Time) {
	before := v.Status.CommonEncodingVersion
	v.Status.CommonEncodingVersion = apiserverinternal.CommonEncodingVersion(v.Status.StorageVersions)
	condition := internalv1alpha1.StorageVersionCondition{
		Type: internalv1alpha1.AllEncodingVersionsEqual, Status: internalv1alpha1.ConditionFalse, ObservedGeneration: v.Generation,
		LastTransitionTime: now, Reason: "CommonEncodingVersionUnset", Message: "Common encoding version unset",
	}
	if v.Status.CommonEncodingVersion != nil {
		condition.Status, condition.Reason, condition.Message = internalv1alpha1.ConditionTrue, "CommonEncodingVersionSet", "Common encoding version set"
	}
	at := slices.IndexFunc(v.Status.Conditions, func(c internalv1alpha1.StorageVersionCondition) bool { return c.Type == condition.Type })
	if at < 0 {
		v.Status.Conditions = append(v.Status.Conditions, condition)
		return
	}
	existing := &v.Status.Conditions[at]
	if existing.Status == condition.Status && !versionChanged(before, v.Status.CommonEncodingVersion) {
		condition.LastTransitionTime = existing.LastTransitionTime
	}
	*existing = condition
}

// versionChanged reports whether the common version changed from one version to another. Such a change counts
// as a transition, because storage migrators use the transition time.
func versionChanged(before, now *string) bool { return before != nil && now != nil && *before != *now }
