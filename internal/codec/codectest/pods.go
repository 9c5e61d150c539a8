package codectest

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Pods returns two typical pods of a Deployment. As JSON, the first has about 4 KiB and the second about 9
// KiB, nearly half of which is managed fields. The caller owns the pods.
func Pods() []*corev1.Pod { return []*corev1.Pod{pod("small", false), pod("large", true)} }

func pod(name string, large bool) *corev1.Pod {
	yes, grace, zero, mode := true, int64(30), int32(0), int32(0o644)
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "orders-7d9c5b6f4-" + name, Namespace: "shop", UID: "0f0b1d3c-6a6e-4f0e-9d6c-1b2a3c4d5e6f",
			CreationTimestamp: metav1.NewTime(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)),
			Labels: map[string]string{"app.kubernetes.io/name": "orders", "app.kubernetes.io/part-of": "shop",
				"pod-template-hash": "7d9c5b6f4", "shard": "17"},
			Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090",
				"checksum/config": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "orders-7d9c5b6f4",
				UID: "3f2c1a7e-5d1b-4c55-9a0e-6f1d2b3c4d5e", Controller: &yes, BlockOwnerDeletion: &yes}},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-007", Containers: []corev1.Container{container("orders", large)},
			RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, SchedulerName: corev1.DefaultSchedulerName,
			Priority: &zero, EnableServiceLinks: &yes, ServiceAccountName: "default", DeprecatedServiceAccount: "default",
			TerminationGracePeriodSeconds: &grace,
			SecurityContext:               &corev1.PodSecurityContext{RunAsNonRoot: &yes},
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists,
				Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &grace}},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "orders-config"}, DefaultMode: &mode}}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable},
	}
	if large {
		p.Spec.Containers = append(p.Spec.Containers, container("proxy", true))
		p.Spec.Tolerations = append(p.Spec.Tolerations, p.Spec.Tolerations[0])
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: "v1", Time: &p.CreationTimestamp, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(managed(p))}}
	return p
}

func container(name string, large bool) corev1.Container {
	yes, no := true, false
	probe := &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: "/healthz", Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP}},
		InitialDelaySeconds: 5, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
	}
	c := corev1.Container{
		Name: name, Image: "registry.example.com/team/" + name + ":v1.27.3-build.4411",
		Args: []string{"--config=/etc/" + name + "/config.yaml", "--log-level=info", "--leader-elect=false"},
		Env: []corev1.EnvVar{
			{Name: "DATABASE_URL", Value: "postgres://db.internal.example.com:5432/orders?sslmode=require"},
			{Name: "FEATURES", Value: "checkout,search,recommendations,audit"},
		},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("512Mi")},
		},
		VolumeMounts:           []corev1.VolumeMount{{Name: "config", MountPath: "/etc/" + name, ReadOnly: true}},
		ReadinessProbe:         probe,
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		ImagePullPolicy: corev1.PullIfNotPresent,
	}
	if large {
		c.LivenessProbe = probe
		c.Env = append(c.Env, corev1.EnvVar{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}})
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: "metrics", ContainerPort: 9090, Protocol: corev1.ProtocolTCP})
		c.SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	}
	return c
}

// managed returns a FieldsV1 document that covers all fields of a pod, similar to those that kube-apiserver
// writes.
func managed(p *corev1.Pod) string {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	if err != nil {
		panic(err)
	}
	delete(content, "kind")
	delete(content, "apiVersion")
	var b strings.Builder
	writeFields(&b, content)
	return b.String()
}

func writeFields(b *strings.Builder, v any) {
	sep := "{"
	member := func(key string, v any) {
		fmt.Fprintf(b, "%s%q:", sep, key)
		sep = ","
		writeFields(b, v)
	}
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			member("f:"+key, value)
		}
	case []any:
		for i, value := range v {
			if m, ok := value.(map[string]any); ok && m["name"] != nil {
				member(fmt.Sprintf(`k:{"name":%q}`, m["name"]), value)
			} else if ok {
				member(fmt.Sprintf("i:%d", i), value)
			}
		}
	}
	if sep == "{" {
		b.WriteByte('{')
	}
	b.WriteByte('}')
}
