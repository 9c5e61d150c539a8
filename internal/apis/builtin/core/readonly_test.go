package core_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

func TestComponentStatuses(t *testing.T) {
	t.Parallel()
	condition := func(status corev1.ConditionStatus, message string) []corev1.ComponentCondition {
		return []corev1.ComponentCondition{{Type: corev1.ComponentHealthy, Status: status, Message: message}}
	}
	tests := map[string]struct {
		health func(context.Context) error
		want   []corev1.ComponentCondition
		cells  []any
	}{
		"well":    {func(context.Context) error { return nil }, condition(corev1.ConditionTrue, "ok"), []any{"etcd-0", "Healthy", "ok", ""}},
		"sick":    {func(context.Context) error { return errors.New("no space") }, condition(corev1.ConditionFalse, "no space"), []any{"etcd-0", "Unhealthy", "no space", ""}},
		"unknown": {},
	}
	for name, test := range tests {
		a := buildAPI(t, &builtin.Env{Storage: builtin.StorageEnv{Health: test.health}})
		r := a.resource("v1 componentstatuses")
		list, err := r.Storage.(rest.Lister).List(t.Context(), "", rest.ListOptions{Fields: fields.OneTermEqualSelector("metadata.name", "etcd-0")})
		if err != nil {
			t.Fatal(err)
		}
		var listed []corev1.ComponentCondition
		for record, err := range list.Items {
			obj, err := a.object(record, err)
			if err != nil {
				t.Fatal(err)
			}
			listed = append(listed, obj.(*corev1.ComponentStatus).Conditions...)
			cells, _, err := r.Table.Cells(obj, obj.GetCreationTimestamp().Time)
			if diff := cmp.Diff(test.cells, cells); diff != "" || err != nil {
				t.Errorf("%s: %v, cells (-want +got):\n%s", name, err, diff)
			}
		}
		if diff := cmp.Diff(test.want, listed); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		got, err := a.tryGet("v1 componentstatuses", in("", "etcd-0"))
		if test.want == nil {
			wantMessage(t, err, `componentstatus "etcd-0" not found`)
		} else if err != nil || got.GetResourceVersion() != "" {
			t.Errorf("%s: get etcd-0: %v, error %v; want an object without a resource version", name, got, err)
		}
		_, err = a.tryGet("v1 componentstatuses", in("", "nope"))
		wantMessage(t, err, `componentstatus "nope" not found`)
	}
}

func TestFieldSelectors(t *testing.T) {
	t.Parallel()
	const unsupported = "field label not supported: "
	tests := []struct{ resource, key, want string }{ // want is the key in the object's field set, or the error message
		{"v1 pods", "spec.nodeName", "spec.nodeName"},
		{"v1 pods", "spec.host", "spec.nodeName"},
		{"v1 pods", "status.podIPs", "status.podIPs"},
		{"v1 pods", "metadata.namespace", "metadata.namespace"},
		{"v1 pods", "spec.containers", unsupported + "spec.containers"},
		{"v1 nodes", "metadata.name", "metadata.name"},
		{"v1 nodes", "spec.unschedulable", "spec.unschedulable"},
		{"v1 nodes", "metadata.namespace", unsupported + "metadata.namespace"},
		{"v1 namespaces", "status.phase", "status.phase"},
		{"v1 namespaces", "metadata.namespace", unsupported + "metadata.namespace"},
		{"v1 namespaces", "name", unsupported + "name"},
		{"v1 persistentvolumes", "metadata.namespace", "metadata.namespace"},
		{"v1 services", "spec.clusterIP", "spec.clusterIP"},
		{"v1 services", "spec.type", "spec.type"},
		{"v1 secrets", "type", "type"},
		{"v1 secrets", "status.phase", unsupported + "status.phase"},
		{"v1 replicationcontrollers", "status.replicas", "status.replicas"},
		{"v1 configmaps", "type", `"type" is not a known field selector: only "metadata.name", "metadata.namespace"`},
		{"v1 events", "involvedObject.fieldPath", "involvedObject.fieldPath"},
		{"v1 events", "source", "source"},
		{"v1 events", "regarding.kind", unsupported + "regarding.kind"},
		{"events.k8s.io/v1 events", "regarding.kind", "involvedObject.kind"},
		{"events.k8s.io/v1 events", "regarding.uid", "involvedObject.uid"},
		{"events.k8s.io/v1 events", "reportingController", "reportingComponent"},
		{"events.k8s.io/v1 events", "source", unsupported + "source"},
		{"events.k8s.io/v1 events", "involvedObject.kind", unsupported + "involvedObject.kind"},
	}
	a := declared(t)
	for _, test := range tests {
		got, value, err := a.resource(test.resource).FieldLabel(test.key, "v")
		if err != nil {
			got, value = err.Error(), "v"
		}
		if got != test.want || value != "v" {
			t.Errorf("%s %s: %q=%q, want %q", test.resource, test.key, got, value, test.want)
		}
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	pod := newPod("p", "n")
	pod.Spec.HostNetwork, pod.Spec.RestartPolicy, pod.Spec.SchedulerName, pod.Spec.ServiceAccountName = true, corev1.RestartPolicyNever, "sched", "sa"
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}, NominatedNodeName: "m"}
	event := &corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "p", UID: "u", APIVersion: "v1", ResourceVersion: "5", FieldPath: "spec.containers{c}"},
		Reason:         "Started", ReportingController: "kubelet", Type: "Normal",
	}
	tests := []struct {
		resource string
		obj      codec.Object
		want     fields.Set
	}{
		{"v1 pods", pod, fields.Set{
			"spec.nodeName": "n", "spec.restartPolicy": "Never", "spec.schedulerName": "sched", "spec.serviceAccountName": "sa",
			"spec.hostNetwork": "true", "status.phase": "Running", "status.podIP": "10.0.0.1", "status.nominatedNodeName": "m",
		}},
		{"v1 events", event, fields.Set{
			"involvedObject.kind": "Pod", "involvedObject.namespace": "ns", "involvedObject.name": "p", "involvedObject.uid": "u",
			"involvedObject.apiVersion": "v1", "involvedObject.resourceVersion": "5", "involvedObject.fieldPath": "spec.containers{c}",
			"reason": "Started", "reportingComponent": "kubelet", "source": "kubelet", "type": "Normal",
		}},
		{"v1 nodes", &corev1.Node{}, fields.Set{"spec.unschedulable": "false"}},
		{"v1 replicationcontrollers", &corev1.ReplicationController{Status: corev1.ReplicationControllerStatus{Replicas: 3}}, fields.Set{"status.replicas": "3"}},
	}
	a := declared(t)
	for _, test := range tests {
		r := a.resource(test.resource)
		if diff := cmp.Diff(test.want, r.Kind.Fields(test.obj)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.resource, diff)
		}
	}
}
