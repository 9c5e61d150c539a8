package podspec

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

// podOf decodes a pod spec that consists of the given fields and the required fields.
func podOf(t *testing.T, fields string) *corev1.PodSpec {
	t.Helper()
	spec := &corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	if err := json.Unmarshal([]byte("{"+fields+"}"), spec); err != nil {
		t.Fatalf("decode a pod specification with the fields %s: %v", fields, err)
	}
	Default(spec)
	return spec
}

func gatesOf(t *testing.T, value string) feature.Gates {
	t.Helper()
	gates, err := feature.Defaults().Parse(value)
	if err != nil {
		t.Fatal(err)
	}
	return gates
}

// on returns the JSON fields of a pod whose container has the given field.
func on(field string) string { return `"containers":[{"name":"c","image":"i",` + field + `}]` }

func specFaults(t *testing.T, gates feature.Gates, spec, old *corev1.PodSpec, options Options) []string {
	t.Helper()
	var lines []string
	for _, err := range validation.NewValidator(gates).Validate(t.Context(), func(f validation.Field) { Validate(f, spec, old, options) }) {
		lines = append(lines, err.Error())
	}
	slices.Sort(lines)
	return lines
}

func wantFaults(t *testing.T, name string, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %q, want %q", name, got, want)
		return
	}
	for i := range got {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%s: got %q, want %q", name, got[i], want[i])
		}
	}
}

// TestRules checks rules that the recorded requests do not cover.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, fields, gates string
		want                []string
	}{
		{name: "nothing but a container"},
		{"stop signal without an OS", on(`"lifecycle":{"stopSignal":"SIGTERM"}`), "",
			[]string{"containers[0].lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`"}},
		{"stop signal of Linux", on(`"lifecycle":{"stopSignal":"SIGRTMIN+3"}`) + `,"os":{"name":"linux"}`, "", nil},
		{"stop signal that is none", on(`"lifecycle":{"stopSignal":"TERM"}`) + `,"os":{"name":"linux"}`, "",
			[]string{`containers[0].lifecycle.stopSignal: Unsupported value: "TERM": supported values: "SIGABRT", "SIGALRM"`}},
		{"stop signal of Windows", on(`"lifecycle":{"stopSignal":"SIGINT"}`) + `,"os":{"name":"windows"}`, "",
			[]string{`containers[0].lifecycle.stopSignal: Unsupported value: "SIGINT": supported values: "SIGKILL", "SIGTERM"`}},

		{"scheduling group", `"schedulingGroup":{"podGroupName":"a.b"}`, "", nil},
		{"scheduling group of no name", `"schedulingGroup":{}`, "", []string{"schedulingGroup: Required value"}},
		{"scheduling group of a bad name", `"schedulingGroup":{"podGroupName":"A"}`, "", []string{`schedulingGroup.podGroupName: Invalid value: "A"`}},
		{"eviction responder", `"evictionResponders":[{"name":"acme.io/foo","priority":1000},{"name":"acme.io/bar","priority":100000}]`, "", nil},
		{"eviction responders of groups", `"schedulingGroup":{"podGroupName":"g"},"evictionResponders":[{"name":"acme.io/foo","priority":1000}]`, "",
			[]string{"evictionResponders: Forbidden: may not be set when schedulingGroup is set"}},
		{"bad eviction responders", `"evictionResponders":[{"name":"foo","priority":-1},{"priority":100001},{"name":"x.k8s.io/a"},{"name":"a.b/c","priority":999},{"name":"a.b/c","priority":1000}]`, "",
			[]string{
				`evictionResponders[0].name: Invalid value: "foo"`, "evictionResponders[0].priority: Invalid value: -1", "evictionResponders[1].name: Required value",
				"evictionResponders[1].priority: Invalid value: 100001", `evictionResponders[2].name: Invalid value: "x.k8s.io/a": domain names`,
				"evictionResponders[2].priority: Required value", "evictionResponders[3].priority: Invalid value: 999", "evictionResponders[4]: Duplicate value",
			}},
		{"eleven eviction responders", `"evictionResponders":[{},{},{},{},{},{},{},{},{},{},{}]`, "", []string{"evictionResponders: Too many: 11: must have at most 10 items"}},

		{"restart of all", on(`"restartPolicy":"Never","restartPolicyRules":[{"action":"RestartAllContainers","exitCodes":{"operator":"In","values":[1]}}]`), "", nil},
		{"restart of all, off", on(`"restartPolicy":"Never","restartPolicyRules":[{"action":"RestartAllContainers","exitCodes":{"operator":"In","values":[1]}}]`), "RestartAllContainersOnContainerExits=false",
			[]string{`containers[0].restartPolicyRules[0].action: Unsupported value: "RestartAllContainers": supported values: "Restart"`}},

		{"HTTP/2", on(`"livenessProbe":{"httpGet":{"port":1,"protocol":"HTTP2"}}`), "", nil},
		{"HTTP/2 with TLS", on(`"livenessProbe":{"httpGet":{"port":1,"protocol":"HTTP2","scheme":"HTTPS"}}`), "", []string{`containers[0].livenessProbe.httpGet.protocol: Invalid value: "HTTP2": must be used with scheme HTTP`}},
		{"gRPC in the open", on(`"livenessProbe":{"grpc":{"port":1,"mode":"Plain"}}`), "", []string{`containers[0].livenessProbe.grpc.mode: Unsupported value: "Plain": supported values: "Plaintext", "TLS"`}},

		{"mount options", on(`"volumeMounts":[{"name":"v","mountPath":"/v","bindMountOptions":["nodev","exec","nodev"]}]`) + `,"volumes":[{"name":"v"}]`, "",
			[]string{`containers[0].volumeMounts[0].bindMountOptions[1]: Unsupported value: "exec"`, `containers[0].volumeMounts[0].bindMountOptions[2]: Duplicate value: "nodev"`}},
		{"mount options of images", on(`"volumeMounts":[{"name":"v","mountPath":"/v","bindMountOptions":["nodev"]}]`) + `,"volumes":[{"name":"v","image":{"reference":"r"}}]`, "",
			[]string{"containers[0].volumeMounts[0].bindMountOptions: Forbidden"}},
		{"device above the root", on(`"volumeDevices":[{"name":"v","devicePath":"/a/../b"}]`) + `,"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]`, "",
			[]string{`containers[0].volumeDevices[0].devicePath: Invalid value: "/a/../b": can not contain backsteps ('..')`}},
		{"mode of a directory", `"volumes":[{"name":"a","emptyDir":{"mode":1023}},{"name":"b","emptyDir":{"mode":1024}},{"name":"c","emptyDir":{"mode":-1}}]`, "",
			[]string{"volumes[1].emptyDir.mode: Invalid value: 1024", "volumes[2].emptyDir.mode: Invalid value: -1"}},
		{"owners of files", `"volumes":[{"name":"a","secret":{"secretName":"s","defaultUser":-1,"items":[{"key":"k","path":"p","user":2147483648}]}}]`, "",
			[]string{"volumes[0].secret.defaultUser: Invalid value: -1", "volumes[0].secret.items[0].user: Invalid value: 2147483648"}},
		{"trust bundles", `"volumes":[{"name":"a","projected":{"sources":[{"clusterTrustBundle":{"name":"a:b","path":"p"}},{"clusterTrustBundle":{"name":"a:B","path":"q"}},{"clusterTrustBundle":{"signerName":"a","path":"r"}}]}}]`, "",
			[]string{`volumes[0].projected.sources[1].clusterTrustBundle.name: Invalid value: "a:B": not a valid clustertrustbundlename`, `volumes[0].projected.sources[2].clusterTrustBundle.signerName: Invalid value: "a": must be a fully qualified domain`}},
		{"certificates", `"volumes":[{"name":"a","projected":{"sources":[{"podCertificate":{"signerName":"a.b/c","keyType":"ED25519","keyPath":"k","maxExpirationSeconds":3599,"userAnnotations":{"a":"b"}}}]}}]`, "",
			[]string{"volumes[0].projected.sources[0].podCertificate.maxExpirationSeconds: Invalid value: 3599", `volumes[0].projected.sources[0].podCertificate.userAnnotations[a]: Invalid value: "a": must be a domain-prefixed key`}},

		{"ports of the node of init containers", `"initContainers":[{"name":"a","image":"i","ports":[{"containerPort":1,"hostPort":1}]},{"name":"b","image":"i","ports":[{"containerPort":1,"hostPort":1},{"containerPort":2,"hostPort":1}]}]`, "",
			[]string{`initContainers[0].ports[1].hostPort: Duplicate value: "TCP//1"`}},
		{"own users on the network of the node", `"hostUsers":false,"hostNetwork":true`, "", []string{"hostNetwork: Forbidden: when `hostUsers` is false"}},
		{"own users on the network of the node, on", `"hostUsers":false,"hostNetwork":true`, "UserNamespacesHostNetworkSupport=true", nil},
		{"own users and devices", on(`"volumeDevices":[{"name":"v","devicePath":"/a"}]`) + `,"hostUsers":false,"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]`, "",
			[]string{"containers[0].volumeDevices: Forbidden: when `hostUsers` is false"}},
		{"policy of SELinux", `"securityContext":{"seLinuxChangePolicy":"MountOption"}`, "", nil},
		{"policy of SELinux, off", `"securityContext":{"seLinuxChangePolicy":"MountOption"}`, "SELinuxMount=false", []string{`securityContext.seLinuxChangePolicy: Unsupported value: "MountOption": supported values: "Recursive"`}},

		{"comparison", `"tolerations":[{"key":"a","operator":"Gt","value":"1"}]`, "", []string{`tolerations[0].operator: Unsupported value: "Gt"`}},
		{"comparison, on", `"tolerations":[{"key":"a","operator":"Gt","value":"-1"},{"key":"a","operator":"Lt","value":"01"}]`, "TaintTolerationComparisonOperators=true", []string{`tolerations[1].operator: Invalid value: "01"`}},
		{"keys that are added to the selector", `"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule","matchLabelKeys":["a"],"labelSelector":{"matchLabels":{"a":"b"}}}]`, "", nil},
		{"keys that are not added to the selector", `"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule","matchLabelKeys":["a"],"labelSelector":{"matchLabels":{"a":"b"}}}]`, "MatchLabelKeysInPodTopologySpreadSelectorMerge=false",
			[]string{`topologySpreadConstraints[0].matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector`}},
		{"half a page", on(`"resources":{"limits":{"cpu":"1","hugepages-2Mi":"3Mi"}}`), "", []string{`containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": must be divisible by the page size 2Mi`}},
		// apimachinery would need hours to parse these page sizes.
		{"pages of no size", on(`"resources":{"limits":{"cpu":"1","hugepages-1e-2147483647":"1"}}`), "", nil},
		{"pages of any size", on(`"resources":{"limits":{"cpu":"1","hugepages-1.0000000000000000001e2147483647":"1"}}`), "", nil},
	} {
		wantFaults(t, tt.name, specFaults(t, gatesOf(t, tt.gates), podOf(t, tt.fields), nil, Options{}), tt.want...)
	}
}

// TestRulesOfPods checks that a pod must have fields that a template may omit because they are set when a pod
// is created from it.
func TestRulesOfPods(t *testing.T) {
	t.Parallel()
	token := `"volumes":[{"name":"a","projected":{"sources":[{"serviceAccountToken":{"path":"p"}}]}}]`
	claim := `"volumes":[{"name":"a","ephemeral":{"volumeClaimTemplate":{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1"}}}}}}]`
	for _, tt := range []struct {
		name, fields string
		options      Options
		want         []string
	}{
		{"a template's token", token, Options{}, nil},
		{"a pod's token", token, Options{Pod: true}, []string{"volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set"}},
		{"a pod's token with an account", token + `,"serviceAccountName":"s"`, Options{Pod: true}, nil},
		{"a claim", claim, Options{Pod: true, Name: strings.Repeat("a", 251)}, nil},
		{"a claim of a long name", claim, Options{Pod: true, Name: strings.Repeat("a", 252)}, []string{`volumes[0].name: Invalid value: "a": PVC name "` + strings.Repeat("a", 252) + `-a": must be no more than 253 characters`}},
		{"a claim of a bad name", claim, Options{Pod: true, Name: "A"}, []string{`volumes[0].name: Invalid value: "a": PVC name "A-a": a lowercase RFC 1123 subdomain`}},
	} {
		wantFaults(t, tt.name, specFaults(t, feature.Defaults(), podOf(t, tt.fields), nil, tt.options), tt.want...)
	}
}

// TestRatcheting checks values that are rejected in new objects but accepted in stored objects.
func TestRatcheting(t *testing.T) {
	t.Parallel()
	term := `{"topologyKey":"z","labelSelector":{"matchExpressions":[{"key":"a","operator":"In","values":["b c"]}]}}`
	spread := func(fields string) string {
		return `"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule",` + fields + `}]`
	}
	for name, fields := range map[string]string{
		"half a page":            on(`"resources":{"limits":{"cpu":"1","hugepages-2Mi":"3Mi"}}`),
		"values of affinity":     `"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[` + term + `]}}`,
		"values of antiaffinity": `"affinity":{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"podAffinityTerm":` + term + `}]}}`,
		"values of nodes":        `"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["b c"]}]}]}}}`,
		"selector of spread":     spread(`"labelSelector":{"matchLabels":{"a":"b c"}}`),
		"keys of spread":         spread(`"matchLabelKeys":["a b"],"labelSelector":{}`),
		"path of a token":        `"volumes":[{"name":"a","projected":{"sources":[{"serviceAccountToken":{"path":"../p"}}]}}]`,
		"sysctls of the node":    `"hostNetwork":true,"securityContext":{"sysctls":[{"name":"net.ipv4.tcp_syncookies","value":"1"}]}`,
		"own users and devices":  on(`"volumeDevices":[{"name":"v","devicePath":"/a"}]`) + `,"hostUsers":false,"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]`,
		"own users on the node":  `"hostUsers":false,"hostNetwork":true`,
		"comparison":             `"tolerations":[{"key":"a","operator":"Gt","value":"1"}]`,
		"nameserver":             `"dnsConfig":{"nameservers":["010.0.0.1"]}`,
		"alias":                  `"hostAliases":[{"ip":"010.0.0.1"}]`,
		"eviction responder":     `"evictionResponders":[{"name":"x.k8s.io/a","priority":1}]`,
	} {
		spec := podOf(t, fields)
		if len(specFaults(t, feature.Defaults(), spec, nil, Options{})) == 0 {
			t.Errorf("%s is not rejected", name)
		}
		if len(specFaults(t, feature.Defaults(), spec, podOf(t, ""), Options{})) == 0 {
			t.Errorf("%s is not rejected in an update that adds it", name)
		}
		if got := specFaults(t, feature.Defaults(), spec, spec.DeepCopy(), Options{}); len(got) > 0 {
			t.Errorf("%s is rejected in an update that does not change it: %q", name, got)
		}
	}
}

func TestAnnotations(t *testing.T) {
	t.Parallel()
	const cost = corev1.PodDeletionCost
	for _, tt := range []struct {
		name, key, value, old string
		gates                 string
		want                  []string
	}{
		{name: "cost", key: cost, value: "-5"},
		{name: "no cost", key: cost, value: "0"},
		{name: "cost with a plus", key: cost, value: "+5", want: []string{`[` + cost + `]: Invalid value: "+5": must be a 32bit integer`}},
		{name: "cost with a zero", key: cost, value: "05", want: []string{`[` + cost + `]: Invalid value: "05"`}},
		{name: "cost beyond 32 bits", key: cost, value: "2147483648", want: []string{`[` + cost + `]: Invalid value`}},
		{name: "cost that was bad", key: cost, value: "+5", old: "+6"},
		{name: "cost that was good", key: cost, value: "+5", old: "6", want: []string{`[` + cost + `]: Invalid value`}},
		{name: "cost, off", key: cost, value: "x", gates: "PodDeletionCost=false"},
		{name: "mirror", key: corev1.MirrorPodAnnotationKey, value: "x", want: []string{"[kubernetes.io/config.mirror]: Invalid value: \"x\": must set spec.nodeName"}},
		{name: "seccomp", key: seccompPod, value: "localhost/a/b"},
		{name: "seccomp above", key: seccompPod, value: "localhost/../b", want: []string{seccompPod + ": Invalid value: \"../b\": must not contain '..'"}},
		{name: "seccomp of a container", key: seccompContainer + "c", value: "x", want: []string{seccompContainer + `c: Invalid value: "x": must be a valid seccomp profile`}},
		{name: "AppArmor", key: AppArmorContainer + "c", value: "localhost/x"},
		{name: "AppArmor of none", key: AppArmorContainer + "d", value: "x", want: []string{`[` + AppArmorContainer + `d]: Invalid value: "d": container not found`, `[` + AppArmorContainer + `d]: Invalid value: "x": invalid AppArmor profile name: "x"`}},
		{name: "tolerations", key: tolerationsKey, value: `[{"key":"a"}]`},
		{name: "bad tolerations", key: tolerationsKey, value: `[{}]`, want: []string{tolerationsKey + `[0].operator: Invalid value`}},
		{name: "no tolerations", key: tolerationsKey, value: `x`, want: []string{`<nil>: Invalid value: "` + tolerationsKey + `"`}},
	} {
		meta := &metav1.ObjectMeta{Annotations: map[string]string{tt.key: tt.value}}
		var old *metav1.ObjectMeta
		if tt.old != "" {
			old = &metav1.ObjectMeta{Annotations: map[string]string{tt.key: tt.old}}
		}
		var got []string
		for _, err := range validation.NewValidator(gatesOf(t, tt.gates)).Validate(t.Context(), func(f validation.Field) {
			ValidateAnnotations(f, meta, old, podOf(t, ""))
		}) {
			got = append(got, strings.TrimPrefix(err.Error(), "<nil>"))
		}
		slices.Sort(got)
		for i := range tt.want {
			tt.want[i] = strings.TrimPrefix(tt.want[i], "<nil>")
		}
		wantFaults(t, tt.name, got, tt.want...)
	}
}

// TestManyUnknownClaims validates many references to claims that the pod does not have. The error message
// lists the claims that it does have. One copy of the message for each error would need a terabyte.
func TestManyUnknownClaims(t *testing.T) {
	t.Parallel()
	spec := podOf(t, "")
	spec.ResourceClaims = []corev1.PodResourceClaim{{Name: strings.Repeat("a", 3<<20), ResourceClaimName: new("c")}}
	for i := range 300_000 {
		spec.Containers[0].Resources.Claims = append(spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: "b", Request: fmt.Sprint("r", i)})
	}
	if faults := specFaults(t, feature.Defaults(), spec, nil, Options{}); len(faults) == 0 {
		t.Error("the claims are accepted")
	}
}
