package plugin_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/config"
	"mainstay.dev/mainstay/internal/admission/plugin"
	"mainstay.dev/mainstay/internal/admission/podsecurity"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
)

// secured returns a PodSecurity plugin whose namespace "a" has the given labels and pods.
func secured(labels map[string]string, pods ...*corev1.Pod) plugin.PodSecurity {
	return plugin.PodSecurity{
		Standards:  podsecurity.AllVersions(),
		Namespaces: stored[*corev1.Namespace]{{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: podSecurityLabels(labels)}}},
		Pods:       stored[*corev1.Pod](pods),
	}
}

func podSecurityLabels(labels map[string]string) map[string]string {
	prefixed := map[string]string{}
	for key, value := range labels {
		prefixed[podsecurity.LabelPrefix+key] = value
	}
	return prefixed
}

// outcome is the result of a request: an error, warnings, and audit annotations.
type outcome struct {
	err         error
	warnings    []string
	annotations map[string]string
}

func ask(t *testing.T, p admission.Validator, a *admission.Attributes) outcome {
	t.Helper()
	r := httptest.NewRequest("GET", "/", nil)
	ctx := request.NewContext(r.Context(), &request.Info{}, time.Now())
	request.SetAudit(ctx, &request.Audit{})
	err := p.Validate(ctx, a)
	annotations := map[string]string{}
	for key, value := range request.AnnotationsFrom(ctx) {
		annotations[strings.TrimPrefix(key, podsecurity.LabelPrefix)] = value
	}
	return outcome{err, request.WarningsFrom(ctx), annotations}
}

// onHostNetwork and the next functions set a field of a pod specification.
func onHostNetwork(s *corev1.PodSpec) { s.HostNetwork = true }

func onHostPort(s *corev1.PodSpec) { s.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }

func ofClass(name string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.RuntimeClassName = &name }
}

const (
	usesHost     = "host namespaces (hostNetwork=true)"
	refusedHost  = `pods "x" is forbidden: violates PodSecurity "baseline:latest": ` + usesHost
	wouldUseHost = `would violate PodSecurity "baseline:latest": ` + usesHost
)

func TestPodSecurityOfPods(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		labels      map[string]string
		config      config.PodSecurity
		pod         *corev1.Pod
		refusal     string
		warnings    []string
		annotations map[string]string
	}{
		{name: "no labels", pod: podNamed("x", onHostNetwork), annotations: map[string]string{"enforce-policy": "privileged:latest"}},
		{name: "refused", labels: map[string]string{"enforce": "baseline"}, pod: podNamed("x", onHostNetwork), refusal: refusedHost, annotations: map[string]string{"enforce-policy": "baseline:latest"}},
		{name: "allowed", labels: map[string]string{"enforce": "baseline", "enforce-version": "v1.99"}, pod: podNamed("x"), annotations: map[string]string{"enforce-policy": "baseline:v1.99"}},
		{name: "warned of", labels: map[string]string{"warn": "baseline"}, pod: podNamed("x", onHostNetwork), warnings: []string{wouldUseHost}, annotations: map[string]string{"enforce-policy": "privileged:latest"}},
		{name: "audited", labels: map[string]string{"audit": "baseline"}, pod: podNamed("x", onHostNetwork), annotations: map[string]string{"enforce-policy": "privileged:latest", "audit-violations": wouldUseHost}},
		{name: "refused and audited, not warned of", labels: map[string]string{"enforce": "baseline", "audit": "baseline", "warn": "restricted"}, pod: podNamed("x", onHostNetwork),
			refusal: refusedHost, annotations: map[string]string{"enforce-policy": "baseline:latest", "audit-violations": wouldUseHost}},
		{name: "invalid labels enforce most", labels: map[string]string{"enforce": "x"}, pod: podNamed("x", onHostNetwork),
			refusal: `pods "x" is forbidden: violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true), allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), ` +
				`unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), ` +
				`seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`,
			annotations: map[string]string{"enforce-policy": "restricted:latest", "error": `Failed to parse policy: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "x": must be one of privileged, baseline, restricted`}},
		{name: "by default", config: config.PodSecurity{Defaults: podsecurity.Policy{Enforce: podsecurity.LevelVersion{Level: podsecurity.Baseline}}}, pod: podNamed("x", onHostNetwork), refusal: refusedHost,
			annotations: map[string]string{"enforce-policy": "baseline:latest"}},
		{name: "exempt user", labels: map[string]string{"enforce": "baseline"}, config: config.PodSecurity{Exemptions: config.Exemptions{Usernames: []string{"u"}}}, pod: podNamed("x", onHostNetwork), annotations: map[string]string{"exempt": "user"}},
		{name: "exempt namespace", labels: map[string]string{"enforce": "baseline"}, config: config.PodSecurity{Exemptions: config.Exemptions{Namespaces: []string{"a"}}}, pod: podNamed("x", onHostNetwork), annotations: map[string]string{"exempt": "namespace"}},
		{name: "exempt class", labels: map[string]string{"enforce": "baseline"}, config: config.PodSecurity{Exemptions: config.Exemptions{RuntimeClasses: []string{"r"}}}, pod: podNamed("x", onHostNetwork, ofClass("r")), annotations: map[string]string{"exempt": "runtimeClass"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := secured(tt.labels)
			p.Config = tt.config
			a := creating(pods(), tt.pod)
			a.User = &request.User{Name: "u"}
			got := ask(t, p, a)
			wantError(t, got.err, tt.refusal)
			if diff := cmp.Diff(tt.warnings, got.warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.annotations, got.annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPodSecurityOfUpdates checks that a pod is evaluated again if an image or a seccomp annotation changes,
// including changes by a subresource.
func TestPodSecurityOfUpdates(t *testing.T) {
	t.Parallel()
	p := secured(map[string]string{"enforce": "baseline"})
	image := func(s *corev1.PodSpec) { s.Containers[0].Image = "other" }
	debugger := func(s *corev1.PodSpec) {
		s.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "i"}}}
	}
	annotated := podNamed("x", onHostNetwork)
	annotated.Annotations = map[string]string{corev1.SeccompContainerAnnotationKeyPrefix + "c": "other"}
	tests := []struct {
		name        string
		subresource string
		pod, old    *corev1.Pod
		refusal     string
	}{
		{"nothing", "", podNamed("x", onHostNetwork), podNamed("x", onHostNetwork), ""},
		{"image", "", podNamed("x", onHostNetwork, image), podNamed("x", onHostNetwork), refusedHost},
		{"annotation", "", annotated, podNamed("x", onHostNetwork), refusedHost},
		{"debugger", "ephemeralcontainers", podNamed("x", onHostNetwork, debugger), podNamed("x", onHostNetwork), refusedHost},
		{"the same debugger", "ephemeralcontainers", podNamed("x", onHostNetwork, debugger), podNamed("x", onHostNetwork, debugger), ""},
		{"resized", "resize", podNamed("x", onHostNetwork), podNamed("x", onHostNetwork), ""},
		{"status", "status", podNamed("x", onHostNetwork, image), podNamed("x", onHostNetwork), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantError(t, ask(t, p, updating(resource("", "pods", tt.subresource), tt.pod, tt.old)).err, tt.refusal)
		})
	}
}

// TestPodSecurityOfManyDebuggers updates a pod with as many ephemeral containers as fit into a request. The time
// must be linear; comparing all pairs would take minutes.
func TestPodSecurityOfManyDebuggers(t *testing.T) {
	t.Parallel()
	many := func(s *corev1.PodSpec) {
		for i := range 100_000 {
			s.EphemeralContainers = append(s.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: fmt.Sprint("e", i)}})
		}
	}
	a := updating(pods(), podNamed("x", onHostNetwork, many), podNamed("x", onHostNetwork, many))
	wantError(t, ask(t, secured(map[string]string{"enforce": "baseline"}), a).err, "")
}

// TestPodSecurityOfTemplates checks the warnings and audit annotations for each kind of object with a pod
// template.
func TestPodSecurityOfTemplates(t *testing.T) {
	t.Parallel()
	template := corev1.PodTemplateSpec{Spec: podNamed("x", onHostNetwork).Spec}
	metadata := metav1.ObjectMeta{Name: "w"}
	for name, w := range map[string]struct {
		group string
		obj   runtime.Object
	}{
		"podtemplates":           {"", &corev1.PodTemplate{ObjectMeta: metadata, Template: template}},
		"replicationcontrollers": {"", &corev1.ReplicationController{ObjectMeta: metadata, Spec: corev1.ReplicationControllerSpec{Template: &template}}},
		"replicasets":            {"apps", &appsv1.ReplicaSet{ObjectMeta: metadata, Spec: appsv1.ReplicaSetSpec{Template: template}}},
		"deployments":            {"apps", &appsv1.Deployment{ObjectMeta: metadata, Spec: appsv1.DeploymentSpec{Template: template}}},
		"daemonsets":             {"apps", &appsv1.DaemonSet{ObjectMeta: metadata, Spec: appsv1.DaemonSetSpec{Template: template}}},
		"statefulsets":           {"apps", &appsv1.StatefulSet{ObjectMeta: metadata, Spec: appsv1.StatefulSetSpec{Template: template}}},
		"jobs":                   {"batch", &batchv1.Job{ObjectMeta: metadata, Spec: batchv1.JobSpec{Template: template}}},
		"cronjobs":               {"batch", &batchv1.CronJob{ObjectMeta: metadata, Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := secured(map[string]string{"enforce": "baseline", "audit": "baseline"})
			got := ask(t, p, creating(resource(w.group, name, ""), w.obj))
			if got.err != nil || !cmp.Equal(got.warnings, []string{wouldUseHost}) || !cmp.Equal(got.annotations, map[string]string{"audit-violations": wouldUseHost}) {
				t.Errorf("result %+v, want the warning and the audit annotation %q", got, wouldUseHost)
			}
			if got := ask(t, p, creating(resource(w.group, name, "status"), w.obj)); len(got.warnings) > 0 || len(got.annotations) > 0 {
				t.Errorf("status subresource: %+v", got)
			}
			p.Namespaces = broken[*corev1.Namespace]{}
			if got := ask(t, p, creating(resource(w.group, name, ""), w.obj)); got.err != nil || got.annotations["error"] != "failed to lookup namespace a: disk trouble" {
				t.Errorf("without a namespace: %+v", got)
			}
		})
	}
	if got := ask(t, secured(map[string]string{"enforce": "baseline"}), creating(resource("", "replicationcontrollers", ""), &corev1.ReplicationController{})); got.err != nil || len(got.warnings) > 0 {
		t.Errorf("without a template: %+v", got)
	}
}

// TestPodSecurityWithoutNamespace checks that a pod is rejected if its namespace cannot be read.
func TestPodSecurityWithoutNamespace(t *testing.T) {
	t.Parallel()
	p := secured(nil)
	p.Namespaces = broken[*corev1.Namespace]{}
	got := ask(t, p, creating(pods(), podNamed("x")))
	if !apierrors.IsInternalError(got.err) || !strings.Contains(got.err.Error(), "failed to lookup namespace a") || got.annotations["error"] == "" {
		t.Errorf("result %+v, want an internal error and the annotation of the error", got)
	}
}

// relabeled returns a request that changes the labels of the namespace "a".
func relabeled(old, labels map[string]string) *admission.Attributes {
	namespace := func(labels map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: podSecurityLabels(labels)}}
	}
	r := resource("", "namespaces", "")
	r.Version = &codec.Version{GVK: corev1.SchemeGroupVersion.WithKind("Namespace")}
	a := updating(r, namespace(labels), namespace(old))
	a.Name = "a"
	return a
}

func TestPodSecurityOfNamespaces(t *testing.T) {
	t.Parallel()
	controlled := func(name, controller string) *corev1.Pod {
		pod := podNamed(name, onHostNetwork)
		pod.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(controller), Controller: ptr(true)}}
		return pod
	}
	hosts := []*corev1.Pod{podNamed("b", onHostNetwork), podNamed("c", onHostNetwork), controlled("a", "1"), podNamed("good"), podNamed("z", onHostNetwork, onHostPort),
		podNamed("exempt", onHostNetwork, ofClass("r"))}
	for _, pod := range hosts {
		pod.Namespace = "a"
	}
	const violate = `existing pods in namespace "a" violate the new PodSecurity enforce level "baseline:latest"`
	tests := []struct {
		name     string
		old, new map[string]string
		pods     []*corev1.Pod
		warnings []string
	}{
		{"stricter", nil, map[string]string{"enforce": "baseline"}, hosts, []string{violate, "a (and 2 other pods): host namespaces", "z: host namespaces, hostPort"}},
		{"one other", nil, map[string]string{"enforce": "baseline"}, hosts[:2], []string{violate, "b (and 1 other pod): host namespaces"}},
		{"another version", map[string]string{"enforce": "baseline", "enforce-version": "v1.1"}, map[string]string{"enforce": "baseline"}, hosts[:1], []string{violate, "b: host namespaces"}},
		{"the same", map[string]string{"enforce": "baseline"}, map[string]string{"enforce": "baseline", "warn": "restricted"}, hosts, nil},
		{"less strict", map[string]string{"enforce": "restricted"}, map[string]string{"enforce": "baseline"}, hosts, nil},
		{"privileged", map[string]string{"enforce": "baseline", "enforce-version": "v1.1"}, map[string]string{"enforce": "privileged"}, hosts, nil},
		{"no pods", nil, map[string]string{"enforce": "baseline"}, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := secured(tt.old, tt.pods...)
			p.Config.Exemptions.RuntimeClasses = []string{"r"}
			got := ask(t, p, relabeled(tt.old, tt.new))
			if diff := cmp.Diff(tt.warnings, got.warnings); got.err != nil || diff != "" {
				t.Errorf("%v, warnings (-want +got):\n%s", got.err, diff)
			}
		})
	}
}

// TestPodSecurityOfManyPods checks that at most 3,000 pods are evaluated, starting with one pod of
// each controller.
func TestPodSecurityOfManyPods(t *testing.T) {
	t.Parallel()
	many := make([]*corev1.Pod, 0, 4001)
	for i := range 4000 {
		pod := podNamed(fmt.Sprintf("p%04d", i))
		pod.OwnerReferences = []metav1.OwnerReference{{UID: "1", Controller: ptr(true)}}
		many = append(many, pod)
	}
	many = append(many, podNamed("x", onHostNetwork))
	got := ask(t, secured(nil, many...), relabeled(nil, map[string]string{"enforce": "baseline"}))
	want := []string{
		"new PodSecurity enforce level only checked against the first 3000 of 4001 existing pods",
		`existing pods in namespace "a" violate the new PodSecurity enforce level "baseline:latest"`,
		"x: host namespaces",
	}
	if diff := cmp.Diff(want, got.warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// TestPodSecurityOfSlowPods checks the warning if listing the pods fails or does not finish in time.
func TestPodSecurityOfSlowPods(t *testing.T) {
	t.Parallel()
	p := secured(nil, podNamed("x", onHostNetwork))
	a := relabeled(nil, map[string]string{"enforce": "baseline"})
	r := httptest.NewRequest("GET", "/", nil)
	late, cancel := context.WithDeadline(r.Context(), time.Now())
	defer cancel()
	ctx := request.NewContext(late, &request.Info{}, time.Now())
	if err := p.Validate(ctx, a); err != nil {
		t.Error(err)
	}
	const failed = "failed to list pods while checking new PodSecurity enforce level"
	if got := request.WarningsFrom(ctx); !cmp.Equal(got, []string{failed}) {
		t.Errorf("deadline exceeded: %v", got)
	}
	p.Pods = broken[*corev1.Pod]{}
	if got := ask(t, p, a); got.err != nil || !cmp.Equal(got.warnings, []string{failed}) {
		t.Errorf("failed list: %+v", got)
	}
}

// TestPodSecurityOfLabels checks that invalid labels are rejected unless they are already stored.
func TestPodSecurityOfLabels(t *testing.T) {
	t.Parallel()
	p := secured(nil)
	wrong := map[string]string{"enforce": "x"}
	const text = `Namespace "a" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "x": must be one of privileged, baseline, restricted`
	created := relabeled(nil, wrong)
	created.Operation, created.Old = admission.Create, nil
	for name, a := range map[string]*admission.Attributes{"created": created, "changed": relabeled(nil, wrong), "changed otherwise": relabeled(map[string]string{"enforce": "y"}, wrong)} {
		if err := ask(t, p, a).err; !apierrors.IsInvalid(err) || err.Error() != text {
			t.Errorf("%s: error %v, want %q", name, err, text)
		}
	}
	if err := ask(t, p, relabeled(wrong, wrong)).err; err != nil {
		t.Errorf("stored: %v", err)
	}
	created.Object.(*corev1.Namespace).Labels = nil
	if err := ask(t, p, created).err; err != nil {
		t.Errorf("no labels: %v", err)
	}
}

func TestPodSecurityMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics, err := plugin.NewPodSecurityMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	p := secured(map[string]string{"enforce": "baseline", "audit": "baseline", "audit-version": "v1.99", "warn": "restricted", "warn-version": "v1.8"})
	p.Metrics = metrics
	_ = ask(t, p, creating(pods(), podNamed("x", onHostNetwork)))
	_ = ask(t, p, updating(resource("", "pods", "ephemeralcontainers"), podNamed("x", func(s *corev1.PodSpec) { s.Containers[0].Image = "j" }), podNamed("x")))
	p.Config.Exemptions.Namespaces = []string{"a"}
	_ = ask(t, p, creating(resource("apps", "deployments", ""), &appsv1.Deployment{}))
	p = secured(nil)
	p.Metrics = metrics
	_ = ask(t, p, creating(pods(), podNamed("x")))
	p.Namespaces = broken[*corev1.Namespace]{}
	_ = ask(t, p, creating(pods(), podNamed("x")))
	want := map[string]float64{
		"pod_security_errors_total true create pod ":                                                  1,
		"pod_security_evaluations_total allow enforce baseline latest update pod ephemeralcontainers": 1,
		"pod_security_evaluations_total allow enforce privileged latest create pod ":                  1,
		"pod_security_evaluations_total deny audit baseline future create pod ":                       1,
		"pod_security_evaluations_total deny enforce baseline latest create pod ":                     1,
		"pod_security_evaluations_total deny warn restricted v1.8 update pod ephemeralcontainers":     1,
		"pod_security_exemptions_total create controller ":                                            1,
	}
	if diff := cmp.Diff(want, counters(t, registry)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// counters returns the metrics by name and label values.
func counters(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			key := family.GetName()
			for _, label := range metric.GetLabel() {
				key += " " + label.GetValue()
			}
			found[key] = metric.GetCounter().GetValue()
		}
	}
	return found
}
