package podspec

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWarnings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, fields string
		annotations  map[string]string
		want         []string
	}{
		{name: "nothing", fields: `"nodeSelector":{"a":"b"}`},
		{name: "labels of nodes", fields: `"nodeSelector":{"beta.kubernetes.io/os":"linux"},"topologySpreadConstraints":[{"topologyKey":"failure-domain.beta.kubernetes.io/zone","labelSelector":{}}]`, want: []string{
			`spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`,
			`spec.topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
		}},
		{name: "preferred nodes", fields: `"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"preference":{"matchExpressions":[{"key":"beta.kubernetes.io/arch","operator":"In","values":["a b"]}]}}]}}`, want: []string{
			`spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key: beta.kubernetes.io/arch is deprecated since v1.14; use "kubernetes.io/arch" instead`,
			`spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values[0]: a b is invalid, a valid label must be`,
		}},
		{name: "annotations", annotations: map[string]string{"security.alpha.kubernetes.io/sysctls": "", seccompPod: "", seccompContainer + "c": "", AppArmorContainer + "c": ""}, want: []string{
			`metadata.annotations[container.seccomp.security.alpha.kubernetes.io/c]: non-functional in v1.27+; use the "seccompProfile" field instead`,
			`metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+`,
			`metadata.annotations[security.alpha.kubernetes.io/sysctls]: non-functional in v1.11+; use the "sysctls" field instead`,
		}},
		{name: "variables", fields: on(`"env":[{"name":"A","value":"1"},{"name":"A","value":"$(A)2"},{"name":"A","value":"$(A)"},{"name":"A","value":"3"}]`), want: []string{
			`spec.containers[0].env[2]: hides previous definition of "A"`, `spec.containers[0].env[3]: hides previous definition of "A"`,
		}},
		{name: "ports", fields: on(`"ports":[{"containerPort":1,"name":"a"},{"containerPort":1,"hostPort":1},{"containerPort":2,"hostPort":2},{"containerPort":2,"hostPort":2,"hostIP":"1.2.3.4"},{"containerPort":3,"hostIP":"::1","name":"a"},{"containerPort":3,"hostIP":"::1"}]`), want: []string{
			"spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
			"spec.containers[0].ports[3]: dangerously ambiguous port definition with spec.containers[0].ports[2]",
			`spec.containers[0].ports[4]: duplicate port name "a" with spec.containers[0].ports[0], services and probes that select ports by name will use spec.containers[0].ports[0]`,
			"spec.containers[0].ports[4]: hostIP set without hostPort: {Name:a HostPort:0 ContainerPort:3 Protocol:TCP HostIP:::1}",
			"spec.containers[0].ports[5]: duplicate port definition with spec.containers[0].ports[4]",
			"spec.containers[0].ports[5]: hostIP set without hostPort",
		}},
		{name: "fractions", fields: `"overhead":{"memory":"1m"},` + on(`"resources":{"limits":{"ephemeral-storage":"0.5"}}`), want: []string{
			`spec.containers[0].resources.limits[ephemeral-storage]: fractional byte value "500m" is invalid, must be an integer`,
			`spec.overhead[memory]: fractional byte value "1m" is invalid, must be an integer`,
		}},
		{name: "volumes", fields: `"volumes":[{"name":"a","gitRepo":{"repository":"r"}},{"name":"b","ephemeral":{"volumeClaimTemplate":{"spec":{"resources":{"limits":{"storage":"1m"}}}}}}]`, want: []string{
			"spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
			`spec.volumes[1].ephemeral.volumeClaimTemplate.spec.resources.limits[storage]: fractional byte value "1m" is invalid`,
		}},
		{name: "addresses", fields: `"dnsConfig":{"nameservers":["::0001"]},"hostAliases":[{"ip":"::0001"},{"ip":"::0001"}]`, want: []string{
			`spec.dnsConfig.nameservers[0]: IPv6 address "::0001" should be in RFC 5952 canonical format ("::1")`, `spec.hostAliases[0].ip: IPv6`, `spec.hostAliases[1].ip: IPv6`, `spec.hostAliases[1].ip: duplicate ip "::0001"`,
		}},
		{name: "files", fields: `"volumes":[{"name":"v","configMap":{"name":"m","items":[{"key":"a","path":"a/b"},{"key":"b","path":"a/bc"},{"key":"c","path":"a"},{"key":"d","path":"a/b/"}]}}]`, want: []string{
			`volume "v" (ConfigMap "m"): overlapping paths: "a" with "a/b"`, `volume "v" (ConfigMap "m"): overlapping paths: "a" with "a/bc"`,
			`volume "v" (ConfigMap "m"): overlapping paths: "a/b" with "a"`, `volume "v" (ConfigMap "m"): overlapping paths: "a/b" with "a/b"`,
		}},
		{name: "files of several", fields: `"volumes":[{"name":"v","projected":{"sources":[{},{"serviceAccountToken":{"path":"t"}},{"secret":{"name":"s","items":[{"key":"k","path":"t/u"}]}},{"podCertificate":{"keyPath":"t/u/v"}}]}}]`, want: []string{
			`volume "v" (Projected) has no sources provided`,
			`volume "v" (Projected): overlapping paths: "t/u" (Secret "s") with "t" (ServiceAccountToken)`,
			`volume "v" (Projected): overlapping paths: "t/u/v" (PodCertificate key) with "t" (ServiceAccountToken)`,
			`volume "v" (Projected): overlapping paths: "t/u/v" (PodCertificate key) with "t/u" (Secret "s")`,
		}},
	} {
		got := Warnings("spec", podOf(t, tt.fields), &metav1.ObjectMeta{Annotations: tt.annotations})
		slices.Sort(got)
		wantFaults(t, tt.name, got, tt.want...)
	}
}

// TestTemplateWarnings checks the warnings for new and changed templates, including their paths.
func TestTemplateWarnings(t *testing.T) {
	t.Parallel()
	template := &corev1.PodTemplateSpec{Spec: *podOf(t, `"imagePullSecrets":[{"name":""}]`)}
	template.Annotations = map[string]string{AppArmorContainer + "c": appArmorDefault}
	want := []string{
		`spec.template.metadata.annotations[` + AppArmorContainer + `c]: deprecated since v1.30; use the "appArmorProfile" field instead`,
		`spec.template.spec.imagePullSecrets[0].name: invalid empty name ""`,
	}
	wantFaults(t, "new", TemplateWarnings("spec.template.spec", template, nil), want...)
	wantFaults(t, "changed", TemplateWarnings("spec.template.spec", template, &corev1.PodTemplateSpec{}), want...)
	wantFaults(t, "as it was", TemplateWarnings("spec.template.spec", template, template.DeepCopy()))
}

// TestManyWarnings checks that the number of warnings for a template with very many problems is limited, and
// that they are found quickly.
func TestManyWarnings(t *testing.T) {
	t.Parallel()
	const n = 20_000
	spec := podOf(t, `"volumes":[{"name":"v","configMap":{"name":"m"}}]`)
	for i := range n {
		spec.Volumes[0].ConfigMap.Items = append(spec.Volumes[0].ConfigMap.Items, corev1.KeyToPath{Key: "k", Path: strings.Repeat("a/", i%50) + fmt.Sprint(i)})
		spec.Containers[0].Ports = append(spec.Containers[0].Ports, corev1.ContainerPort{ContainerPort: 1, HostPort: int32(i + 1)})
		spec.HostAliases = append(spec.HostAliases, corev1.HostAlias{IP: "::0001"})
		spec.Containers[0].Env = append(spec.Containers[0].Env, corev1.EnvVar{Name: "A"})
	}
	if got := Warnings("spec", spec, &metav1.ObjectMeta{}); len(got) != maxWarnings {
		t.Errorf("%d warnings, want %d", len(got), maxWarnings)
	}
}

// TestDeepPathWarnings checks files in deeply nested directories. Storing the full path of each directory
// would take hours.
func TestDeepPathWarnings(t *testing.T) {
	t.Parallel()
	spec := podOf(t, `"volumes":[{"name":"v","configMap":{"name":"m"}}]`)
	deep := strings.Repeat("a/", 500_000)
	for _, path := range []string{deep + "b", deep + "c", "a/b", "a/a"} {
		spec.Volumes[0].ConfigMap.Items = append(spec.Volumes[0].ConfigMap.Items, corev1.KeyToPath{Key: "k", Path: path})
	}
	got := Warnings("spec", spec, &metav1.ObjectMeta{})
	const want = `volume "v" (ConfigMap "m"): overlapping paths: "a/a" with "a/a/a`
	if len(got) != 2 || !strings.HasPrefix(got[0], want) || !strings.HasPrefix(got[1], want) {
		t.Errorf("%d warnings: %.100q, want two that start with %q", len(got), got, want)
	}
}
