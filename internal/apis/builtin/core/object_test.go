package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSecretText(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	secret := a.create("v1 secrets", &corev1.Secret{
		ObjectMeta: named("ns", "s"), Type: "example.com/custom",
		Data: map[string][]byte{"a": []byte("1"), "b": []byte("2")}, StringData: map[string]string{"b": "text", "c": "3"},
	}).(*corev1.Secret)
	want := map[string][]byte{"a": []byte("1"), "b": []byte("text"), "c": []byte("3")}
	if diff := cmp.Diff(want, secret.Data); diff != "" || secret.StringData != nil {
		t.Errorf("text %v, data (-want +got):\n%s", secret.StringData, diff)
	}
	secret = mustUpdate(a, "v1 secrets", in("ns", "s"), func(s *corev1.Secret) {
		s.Data, s.StringData = nil, map[string]string{"d": "4"}
	})
	if diff := cmp.Diff(map[string][]byte{"d": []byte("4")}, secret.Data); diff != "" {
		t.Error(diff)
	}
}

func TestServiceAccountSecrets(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	account := a.create("v1 serviceaccounts", &corev1.ServiceAccount{
		ObjectMeta: named("ns", "sa"), Secrets: []corev1.ObjectReference{{Name: "s", Namespace: "other", UID: "u"}},
	}).(*corev1.ServiceAccount)
	if diff := cmp.Diff([]corev1.ObjectReference{{Name: "s"}}, account.Secrets); diff != "" {
		t.Error(diff)
	}
}

func TestPersistentVolumePhase(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	pv := a.create("v1 persistentvolumes", &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound, Reason: "r"},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: corev1.ResourceList{"storage": resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}},
		},
	}).(*corev1.PersistentVolume)
	if pv.Status.Phase != corev1.VolumePending || pv.Status.Reason != "" || pv.Status.LastPhaseTransitionTime == nil {
		t.Errorf("status is %+v", pv.Status)
	}
	past, later := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	write := func(change func(*corev1.PersistentVolumeStatus)) *corev1.PersistentVolumeStatus {
		t.Helper()
		return &mustUpdate(a, "v1 persistentvolumes/status", in("", "pv"), func(pv *corev1.PersistentVolume) { change(&pv.Status) }).Status
	}
	status := write(func(s *corev1.PersistentVolumeStatus) { s.LastPhaseTransitionTime = &past })
	if !status.LastPhaseTransitionTime.Equal(&past) {
		t.Errorf("the time that the client has set is %v", status.LastPhaseTransitionTime)
	}
	status = write(func(s *corev1.PersistentVolumeStatus) { s.LastPhaseTransitionTime = nil })
	if !status.LastPhaseTransitionTime.Equal(&past) {
		t.Errorf("without a change of phase the time is %v", status.LastPhaseTransitionTime)
	}
	status = write(func(s *corev1.PersistentVolumeStatus) { s.Phase = corev1.VolumeAvailable })
	if !later.Before(status.LastPhaseTransitionTime) {
		t.Errorf("with a change of phase the time is %v", status.LastPhaseTransitionTime)
	}
	status = write(func(s *corev1.PersistentVolumeStatus) {
		s.Phase, s.LastPhaseTransitionTime = corev1.VolumeBound, &later
	})
	if !status.LastPhaseTransitionTime.Equal(&later) {
		t.Errorf("with a change of phase and a time of the client, the time is %v", status.LastPhaseTransitionTime)
	}
}

func TestVolumeClaimSources(t *testing.T) {
	t.Parallel()
	snapshots := ptr("snapshot.storage.k8s.io")
	source := &corev1.TypedLocalObjectReference{APIGroup: snapshots, Kind: "VolumeSnapshot", Name: "s"}
	ref := &corev1.TypedObjectReference{APIGroup: snapshots, Kind: "VolumeSnapshot", Name: "s"}
	custom := &corev1.TypedLocalObjectReference{APIGroup: ptr("example.com"), Kind: "Thing", Name: "s"}
	customRef := &corev1.TypedObjectReference{APIGroup: ptr("example.com"), Kind: "Thing", Name: "s"}
	elsewhere := &corev1.TypedObjectReference{APIGroup: snapshots, Kind: "VolumeSnapshot", Name: "s", Namespace: ptr("other")}
	tests := map[string]struct {
		sent, want corev1.PersistentVolumeClaimSpec
	}{
		"none":            {},
		"old client":      {corev1.PersistentVolumeClaimSpec{DataSource: source}, corev1.PersistentVolumeClaimSpec{DataSource: source, DataSourceRef: ref}},
		"new client":      {corev1.PersistentVolumeClaimSpec{DataSourceRef: customRef}, corev1.PersistentVolumeClaimSpec{DataSource: custom, DataSourceRef: customRef}},
		"other namespace": {sent: corev1.PersistentVolumeClaimSpec{DataSourceRef: elsewhere}},
		"unknown kind":    {sent: corev1.PersistentVolumeClaimSpec{DataSource: custom}},
	}
	a := newAPI(t)
	for name, test := range tests {
		for _, spec := range []*corev1.PersistentVolumeClaimSpec{&test.sent, &test.want} {
			spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
			spec.Resources.Requests = corev1.ResourceList{"storage": resource.MustParse("1Gi")}
		}
		claim := a.create("v1 persistentvolumeclaims", &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", GenerateName: "c-"}, Spec: test.sent,
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		}).(*corev1.PersistentVolumeClaim)
		test.want.VolumeMode = ptr(corev1.PersistentVolumeFilesystem)
		if diff := cmp.Diff(test.want, claim.Spec); diff != "" || claim.Status.Phase != corev1.ClaimPending {
			t.Errorf("%s: phase %s, spec (-want +got):\n%s", name, claim.Status.Phase, diff)
		}
		same := mustUpdate(a, "v1 persistentvolumeclaims", in("ns", claim.Name), func(*corev1.PersistentVolumeClaim) {})
		if same.ResourceVersion != claim.ResourceVersion {
			t.Errorf("%s: an update without a change was written", name)
		}
	}
}

func TestNodeRegistersWithStatus(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	node := a.create("v1 nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Capacity: capacity}}).(*corev1.Node)
	if len(node.Status.Capacity) != 1 {
		t.Errorf("status is %+v", node.Status)
	}
	node = mustUpdate(a, "v1 nodes", in("", "n"), func(node *corev1.Node) { node.Status = corev1.NodeStatus{}; node.Spec.Unschedulable = true })
	if len(node.Status.Capacity) != 1 || !node.Spec.Unschedulable {
		t.Errorf("node is %+v", node)
	}
}

// TestAddressesInBothForms checks that the field for a single address and the field for a list of addresses
// are kept consistent, for old and new clients.
func TestAddressesInBothForms(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	node := a.create("v1 nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{PodCIDR: "10.1.0.0/24"}}).(*corev1.Node)
	if diff := cmp.Diff([]string{"10.1.0.0/24"}, node.Spec.PodCIDRs); diff != "" {
		t.Error(diff)
	}
	node = mustUpdate(a, "v1 nodes", in("", "n"), func(node *corev1.Node) { node.Spec.PodCIDR = "" })
	if node.Spec.PodCIDR != "10.1.0.0/24" {
		t.Errorf("podCIDR is %q", node.Spec.PodCIDR)
	}
	a.create("v1 pods", newPod("p", "n"))
	pod := mustUpdate(a, "v1 pods/status", in("ns", "p"), func(pod *corev1.Pod) {
		pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}
	})
	if pod.Status.PodIP != "10.0.0.1" {
		t.Errorf("podIP is %q", pod.Status.PodIP)
	}
	pod = mustUpdate(a, "v1 pods/status", in("ns", "p"), func(pod *corev1.Pod) { pod.Status.PodIP = "10.0.0.2" })
	if diff := cmp.Diff([]corev1.PodIP{{IP: "10.0.0.2"}}, pod.Status.PodIPs); diff != "" {
		t.Error(diff)
	}
}

func TestReplicationControllersOrphan(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("v1 replicationcontrollers", newController(1))
	rc, gone := a.delete("v1 replicationcontrollers", in("ns", "rc"), metav1.DeleteOptions{})
	if diff := cmp.Diff([]string{metav1.FinalizerOrphanDependents}, rc.GetFinalizers()); diff != "" || gone {
		t.Errorf("gone is %t, finalizers (-want +got):\n%s", gone, diff)
	}
}

func TestEventDeletionIgnoresPropagation(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground} {
		a.create("v1 events", newEvent("e"))
		if _, gone := a.delete("v1 events", in("ns", "e"), metav1.DeleteOptions{PropagationPolicy: &policy}); !gone {
			t.Errorf("%s: the event still exists", policy)
		}
	}
}

// TestNames checks that names are validated as in kube-apiserver. The name of an event can be any path
// segment.
func TestNames(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	if _, err := a.tryCreate("v1 events", newEvent("Some_Pod.17")); err != nil {
		t.Error(err)
	}
	if _, err := a.tryCreate("v1 services", &corev1.Service{
		ObjectMeta: named("ns", "1st"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}); err != nil {
		t.Error(err)
	}
	for resource, invalid := range map[string]error{
		"services":   second(a.tryCreate("v1 services", &corev1.Service{ObjectMeta: named("ns", "a.b")})),
		"events":     second(a.tryCreate("v1 events", newEvent("a/b"))),
		"configmaps": second(a.tryCreate("v1 configmaps", &corev1.ConfigMap{ObjectMeta: named("ns", "A")})),
	} {
		if !apierrors.IsInvalid(invalid) {
			t.Errorf("create %s with an invalid name: error %v, want Invalid", resource, invalid)
		}
	}
}

func newEvent(name string) *corev1.Event {
	return &corev1.Event{ObjectMeta: named("ns", name), InvolvedObject: corev1.ObjectReference{Namespace: "ns"}}
}

func second[T any](_ T, err error) error { return err }
