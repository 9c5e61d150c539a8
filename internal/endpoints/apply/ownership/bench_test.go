package ownership

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"mainstay.dev/mainstay/internal/codec"
)

// container returns a container with the fields of a typical workload.
func container(name string) corev1.Container {
	yes, no := true, false
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Path: path, Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP}},
			InitialDelaySeconds: 5, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
		}
	}
	reference := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}
	}
	return corev1.Container{
		Name: name, Image: "registry.example.com/team/" + name + ":v1.27.3-build.4411",
		Args: []string{"--config=/etc/" + name + "/config.yaml", "--log-level=info", "--leader-elect=false"},
		Env: []corev1.EnvVar{
			{Name: "POD_NAME", ValueFrom: reference("metadata.name")},
			{Name: "POD_NAMESPACE", ValueFrom: reference("metadata.namespace")},
			{Name: "DATABASE_URL", Value: "postgres://db.internal.example.com:5432/orders?sslmode=require"},
			{Name: "FEATURES", Value: "checkout,search,recommendations,audit"},
		},
		Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP},
			{Name: "metrics", ContainerPort: 9090, Protocol: corev1.ProtocolTCP},
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("512Mi")},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: "/etc/" + name, ReadOnly: true},
			{Name: "cache", MountPath: "/var/cache/" + name},
		},
		LivenessProbe: probe("/healthz"), ReadinessProbe: probe("/readyz"),
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		ImagePullPolicy: corev1.PullIfNotPresent,
		SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
	}
}

func podSpec() corev1.PodSpec {
	yes, no := true, false
	grace, tolerate, mode := int64(30), int64(300), int32(0o644)
	toleration := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &tolerate}
	}
	return corev1.PodSpec{
		NodeName: "node-001", Containers: []corev1.Container{container("orders"), container("proxy")},
		RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, SchedulerName: corev1.DefaultSchedulerName,
		EnableServiceLinks: &yes, AutomountServiceAccountToken: &no, ServiceAccountName: "default", DeprecatedServiceAccount: "default",
		TerminationGracePeriodSeconds: &grace,
		SecurityContext:               &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Tolerations:                   []corev1.Toleration{toleration("node.kubernetes.io/not-ready"), toleration("node.kubernetes.io/unreachable")},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "orders-config"}, DefaultMode: &mode}}},
			{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}
}

func objectMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: "orders-7d9c5b6f4-000001", Namespace: "default",
		Labels:      map[string]string{"app.kubernetes.io/name": "orders", "app.kubernetes.io/part-of": "shop", "pod-template-hash": "7d9c5b6f4", "shard": "1"},
		Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "stamp": "1"},
	}
}

// load is a typical object with a function that updates its status or data.
type load struct {
	fixture
	change func(codec.Object)
}

func loads(t testing.TB) map[string]load {
	pod := &corev1.Pod{ObjectMeta: objectMeta(), Spec: podSpec()}
	deployment := &appsv1.Deployment{ObjectMeta: objectMeta(), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "orders"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: objectMeta().Labels}, Spec: podSpec()},
	}}
	config := &corev1.ConfigMap{ObjectMeta: objectMeta(), Data: map[string]string{"settings": strings.Repeat("word ", 100), "stamp": "0", "mode": "production"}}
	as := func(obj codec.Object, gvk string, change func(codec.Object)) load {
		for _, f := range allFixtures(t) {
			if strings.HasSuffix(gvk, f.gvk.Kind) && f.gvk.GroupVersion().String()+"/"+f.gvk.Kind == gvk {
				obj.GetObjectKind().SetGroupVersionKind(f.gvk)
				return load{fixture{gvk: f.gvk, obj: obj, new: f.new}, change}
			}
		}
		t.Fatalf("no fixture of %s", gvk)
		return load{}
	}
	return map[string]load{
		"pod": as(pod, "v1/Pod", func(obj codec.Object) {
			status := &obj.(*corev1.Pod).Status
			if status.Phase == "" {
				status.Phase, status.HostIP, status.PodIPs = corev1.PodRunning, "10.0.0.1", []corev1.PodIP{{IP: "10.1.2.3"}}
				for _, name := range []corev1.PodConditionType{"Initialized", "Ready", "ContainersReady", "PodScheduled"} {
					status.Conditions = append(status.Conditions, corev1.PodCondition{Type: name, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
				}
				return
			}
			c := &status.Conditions[1]
			c.Status = map[corev1.ConditionStatus]corev1.ConditionStatus{corev1.ConditionTrue: corev1.ConditionFalse, corev1.ConditionFalse: corev1.ConditionTrue}[c.Status]
		}),
		"deployment": as(deployment, "apps/v1/Deployment", func(obj codec.Object) { obj.(*appsv1.Deployment).Status.Replicas++ }),
		"configmap": as(config, "v1/ConfigMap", func(obj codec.Object) {
			data := obj.(*corev1.ConfigMap).Data
			data["stamp"] = fmt.Sprint(len(data["stamp"])) + data["stamp"][:1]
		}),
	}
}

type updater func(live, obj codec.Object, manager string)

// updaters returns the two implementations of Update, by name.
func updaters(t testing.TB, f fixture) map[string]updater {
	k, m := ours(t, f, "", nil), upstream(t, f, "", nil)
	return map[string]updater{
		"ours": func(live, obj codec.Object, manager string) {
			if !k.Update(live, obj, manager) {
				t.Fatal("not covered")
			}
		},
		"apimachinery": func(live, obj codec.Object, manager string) { m.UpdateNoErrors(live, obj, manager) },
	}
}

func BenchmarkCreate(b *testing.B) {
	for name, l := range loads(b) {
		for way, update := range updaters(b, l.fixture) {
			b.Run(name+"/"+way, func(b *testing.B) {
				b.ReportAllocs()
				empty := l.empty()
				for b.Loop() {
					l.obj.SetManagedFields(nil)
					update(empty, l.obj, "controller")
				}
			})
		}
	}
}

// BenchmarkUpdate changes the status or the data of an object with three managers.
func BenchmarkUpdate(b *testing.B) {
	for name, l := range loads(b) {
		for way, update := range updaters(b, l.fixture) {
			b.Run(name+"/"+way, func(b *testing.B) {
				live := threeManagers(l, update)
				obj := copyOf(live)
				l.change(obj)
				obj.SetManagedFields(nil)
				b.ReportAllocs()
				for b.Loop() {
					update(live, obj, "kubelet")
					obj.SetManagedFields(nil)
				}
			})
		}
	}
}

func threeManagers(l load, update updater) codec.Object {
	live := copyOf(l.obj)
	live.SetUID("x")
	update(l.empty(), live, "controller")
	next := copyOf(live)
	l.change(next)
	update(live, next, "kubelet")
	live, next = next, copyOf(next)
	next.SetAnnotations(map[string]string{"prometheus.io/scrape": "true", "scheduled": "yes"})
	update(live, next, "scheduler")
	return next
}

// BenchmarkUpdateSize reports the size of the benchmark objects.
func BenchmarkUpdateSize(b *testing.B) {
	for name, l := range loads(b) {
		b.Run(name, func(b *testing.B) {
			text, err := json.Marshal(l.obj)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(len(text)), "json-B")
		})
	}
}

// applied returns a typical configuration that a controller applies.
func applied(t testing.TB, obj codec.Object) *unstructured.Unstructured {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if _, err := codec.UnmarshalDocument(text, &u.Object); err != nil {
		t.Fatal(err)
	}
	delete(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	return u
}

type applyFunc func(live codec.Object, config *unstructured.Unstructured) codec.Object

func appliers(t testing.TB, f fixture) map[string]applyFunc {
	k, m := ours(t, f, "", nil), upstream(t, f, "", nil)
	return map[string]applyFunc{
		"ours": func(live codec.Object, config *unstructured.Unstructured) codec.Object {
			out := k.Apply(live, config, "applier", true)
			if out == nil {
				t.Fatal("not covered")
			}
			return out
		},
		"apimachinery": func(live codec.Object, config *unstructured.Unstructured) codec.Object {
			out, err := m.Apply(live, config, "applier", true)
			if err != nil {
				t.Fatal(err)
			}
			return out.(codec.Object)
		},
	}
}

// BenchmarkApply measures applies that change a label, remove a field, change nothing, and create
// an object.
func BenchmarkApply(b *testing.B) {
	for name, l := range loads(b) {
		for way, apply := range appliers(b, l.fixture) {
			config := applied(b, l.obj)
			live := apply(l.empty(), config)
			live.SetUID("x")
			less, change := config.DeepCopy(), config.DeepCopy()
			unstructured.RemoveNestedField(less.Object, "metadata", "annotations", "stamp")
			change.SetLabels(map[string]string{"app.kubernetes.io/name": "other"})
			for what, config := range map[string]*unstructured.Unstructured{"change": change, "less": less, "same": config} {
				b.Run(name+"/"+what+"/"+way, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						apply(live, config)
					}
				})
			}
			b.Run(name+"/new/"+way, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					apply(l.empty(), config)
				}
			})
		}
	}
}

// BenchmarkParse parses the field set of a pod's creator, without the cache.
func BenchmarkParse(b *testing.B) {
	l := loads(b)["pod"]
	k := ours(b, l.fixture, "", nil)
	obj := copyOf(l.obj)
	k.Update(l.empty(), obj, "controller")
	raw := obj.GetManagedFields()[0].FieldsV1.GetRawBytes()
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parse(raw); err != nil {
			b.Fatal(err)
		}
	}
}
