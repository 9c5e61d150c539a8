package node

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/request"
)

func newAuthorizer(gates feature.Gates) *Authorizer {
	return New(Config{
		Rules:  []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"services", "secrets", "nodes"}}},
		Gates:  gates,
		Logger: slog.New(slog.DiscardHandler),
	})
}

func kubelet(name string) *request.User {
	return &request.User{Name: request.NodePrefix + name, Groups: []string{request.GroupNodes, request.GroupAuthenticated}}
}

func in(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// richPod returns a pod that refers to objects in all possible ways.
func richPod(name, node string) *corev1.Pod {
	local := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	given, made := "claimed", "made-for-it"
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: "bot", ImagePullSecrets: []corev1.LocalObjectReference{local("pull"), {}},
			InitContainers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local("env-from")}}}}},
			Containers: []corev1.Container{{Env: []corev1.EnvVar{
				{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: local("env")}}},
				{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: local("map-env")}}},
			}}},
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: local("map-debug")}}},
			}}},
			Volumes: []corev1.Volume{
				{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "volume"}}},
				{Name: "m", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("map-volume")}}},
				{Name: "c", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
				{Name: "e", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
				{Name: "p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{Secret: &corev1.SecretProjection{LocalObjectReference: local("projected")}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("map-projected")}},
				}}}},
				{Name: "x", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: &corev1.LocalObjectReference{Name: "csi"}}}},
			},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "1", ResourceClaimName: &given}, {Name: "2"}, {Name: "3"}},
		},
		Status: corev1.PodStatus{
			ResourceClaimStatuses:       []corev1.PodResourceClaimStatus{{Name: "2", ResourceClaimName: &made}},
			ExtendedResourceClaimStatus: &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended"},
		},
	}
}

func boundVolume(name, claim string, source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "a", Name: claim}, PersistentVolumeSource: source},
	}
}

// newCluster returns an Authorizer for two nodes. Only n1 is related to the objects to which richPod refers.
func newCluster(gates feature.Gates) *Authorizer {
	a := newAuthorizer(gates)
	g := &a.graph
	g.setPod(in("a", "p"), podRefsOf(richPod("p", "n1")))
	g.setPod(in("a", "q"), podRefsOf(&corev1.Pod{Spec: corev1.PodSpec{NodeName: "n2"}}))
	g.setPod(in("a", "pending"), podRefsOf(richPod("pending", "")))
	mirror := richPod("mirror", "n2")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	g.setPod(in("a", "mirror"), podRefsOf(mirror))
	ref := func(namespace, name string) *corev1.SecretReference {
		return &corev1.SecretReference{Namespace: namespace, Name: name}
	}
	g.setVolume(in("", "pv"), volumeRefsOf(boundVolume("pv", "claim", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
		NodeStageSecretRef: ref("storage", "stage"), ControllerPublishSecretRef: ref("storage", "controller"),
	}})))
	g.setVolume(in("", "old"), volumeRefsOf(boundVolume("old", "p-e", corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{SecretRef: ref("", "rbd")}})))
	g.setVolume(in("", "free"), volumeRefsOf(&corev1.PersistentVolume{}))
	g.setOwner(g.attachments, in("", "va"), "n1")
	g.setOwner(g.slices, in("", "slice"), "n1")
	g.setOwner(g.certificates, in("a", "pcr"), "n1")
	return a
}

// attributesOf parses "VERB GROUP/RESOURCE/SUBRESOURCE NAMESPACE NAME FIELDS". "-" stands for an
// empty value.
func attributesOf(user *request.User, text string) *authorizer.Attributes {
	words := append(strings.Fields(text), "-", "-", "-", "-")
	word := func(i int) string { return strings.TrimPrefix(words[i], "-") }
	parts := append(strings.Split(word(1), "/"), "", "")
	a := &authorizer.Attributes{User: user, Verb: word(0), ResourceRequest: true, APIGroup: parts[0], Resource: parts[1], Subresource: parts[2], Namespace: word(2), Name: word(3)}
	if field, value, ok := strings.Cut(word(4), "="); ok {
		a.FieldSelectorRequirements = fields.OneTermEqualSelector(field, value).Requirements()
	}
	return a
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	const unrelated = "no relationship found between node 'n1' and this object"
	a := newCluster(feature.Defaults())
	for question, want := range map[string]string{ // the reason; "" means allowed
		"get /services a s": "", "delete /services a s": "refused",
		"get /secrets a pull": "", "list /secrets a pull": "", "watch /secrets a env-from": "", "get /secrets a env": "", "get /secrets a volume": "",
		"get /secrets a projected": "", "get /secrets a csi": "", "get /secrets storage stage": "", "get /secrets a rbd": "",
		"get /secrets storage controller": unrelated, "get /secrets b pull": unrelated, "get /secrets a map-env": unrelated,
		"list /secrets a": "No Object name found", "get /secrets - pull": "can only read namespaced object of this type",
		"update /secrets a pull": "can only read resources of this type", "get /secrets/x a pull": "cannot read subresource",
		"get /configmaps a map-env": "", "get /configmaps a map-debug": "", "get /configmaps a map-volume": "", "get /configmaps a map-projected": "", "get /configmaps a env": unrelated,
		"get /persistentvolumeclaims a claim": "", "get /persistentvolumeclaims a p-e": "", "get /persistentvolumeclaims a pending-e": unrelated,
		"list /persistentvolumeclaims a": "can only get individual resources of this type", "update /persistentvolumeclaims/status a claim": "",
		"get /persistentvolumeclaims/status a claim": "can only get/update/patch this type", "patch /persistentvolumeclaims/status a other": unrelated,
		"get /persistentvolumes - pv": "", "get /persistentvolumes - free": unrelated, "get /persistentvolumes/status - pv": "cannot get subresource",
		"get resource.k8s.io/resourceclaims a claimed": "", "get resource.k8s.io/resourceclaims a made-for-it": "", "get resource.k8s.io/resourceclaims a extended": "", "get resource.k8s.io/resourceclaims a 3": unrelated,
		"get storage.k8s.io/volumeattachments - va": "", "get storage.k8s.io/volumeattachments - vb": unrelated,
		"get /serviceaccounts a bot": "", "create /serviceaccounts/token a bot": "", "create /serviceaccounts/token a other": unrelated, "get /serviceaccounts a other": unrelated,
		"create /serviceaccounts a": "can only create tokens for individual service accounts", "create /serviceaccounts a bot": "can only create token subresource of serviceaccount",
		"get coordination.k8s.io/leases kube-node-lease n1": "", "create coordination.k8s.io/leases kube-node-lease": "",
		"get coordination.k8s.io/leases kube-node-lease n2": "can only access node lease with the same name as the requesting node",
		"get coordination.k8s.io/leases a n1":               `can only access leases in the "kube-node-lease" system namespace`,
		"list coordination.k8s.io/leases kube-node-lease":   "can only get, create, update, patch, or delete a node lease",
		"delete storage.k8s.io/csinodes - n1":               "", "create storage.k8s.io/csinodes": "", "list storage.k8s.io/csinodes": "can only get, create, update, patch, or delete a CSINode",
		"get storage.k8s.io/csinodes - n2":                                     "can only access CSINode with the same name as the requesting node",
		"get storage.k8s.io/csinodes/x - n1":                                   "cannot authorize CSINode subresources",
		"create resource.k8s.io/resourceslices":                                "",
		"get resource.k8s.io/resourceslices - slice":                           "",
		"get resource.k8s.io/resourceslices - other":                           unrelated,
		"list resource.k8s.io/resourceslices":                                  "can only list/watch/deletecollection resourceslices with nodeName field selector",
		"list resource.k8s.io/resourceslices - - spec.nodeName=n1":             "",
		"deletecollection resource.k8s.io/resourceslices - - spec.nodeName=n2": "can only list/watch/deletecollection resourceslices with nodeName field selector",
		"proxy resource.k8s.io/resourceslices":                                 "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
		"get resource.k8s.io/resourceslices/x - slice":                         "cannot authorize ResourceSlice subresources",
		"get /nodes - n1": "", "get /nodes - n2": "node 'n1' cannot read 'n2', only its own Node object", "list /nodes": "node 'n1' cannot read all nodes, only its own Node object",
		"watch /nodes - n1": "", "create /nodes": "", "patch /nodes/status - n1": "", "delete /nodes - n1": "refused", "get /nodes/proxy - n1": "refused",
		"get /pods a p": "", "get /pods a q": unrelated, "list /pods": "can only list/watch pods with spec.nodeName field selector",
		"list /pods - - spec.nodeName=n1": "", "watch /pods - - spec.nodeName=n2": "can only list/watch pods with spec.nodeName field selector", "watch /pods a p": "",
		"create /pods a": "", "delete /pods a q": "", "patch /pods a p": "refused", "patch /pods/status a q": "", "create /pods/eviction a q": "", "create /pods/exec a p": "refused",
		"create certificates.k8s.io/podcertificaterequests a":                  "",
		"get certificates.k8s.io/podcertificaterequests a pcr":                 "",
		"get certificates.k8s.io/podcertificaterequests a other":               unrelated,
		"list certificates.k8s.io/podcertificaterequests - - spec.nodeName=n1": "",
		"list certificates.k8s.io/podcertificaterequests":                      "can only list/watch podcertificaterequests with nodeName field selector",
		"delete certificates.k8s.io/podcertificaterequests a pcr":              "nodes may not delete podcertificaterequests",
		"update certificates.k8s.io/podcertificaterequests/status a pcr":       "nodes may not access the status subresource of PodCertificateRequests",
		"get example.com/secrets a pull":                                       "refused",
	} {
		decision, reason, err := a.Authorize(t.Context(), attributesOf(kubelet("n1"), question))
		if decision != authorizer.DecisionAllow && reason == "" {
			reason = "refused"
		}
		if err != nil || reason != want || decision == authorizer.DecisionDeny {
			t.Errorf("%s: %s %q %v; want %q", question, decision, reason, err, want)
		}
	}
}

func TestNodeUsers(t *testing.T) {
	t.Parallel()
	a := newCluster(feature.Defaults())
	for _, tt := range []struct {
		user   *request.User
		reason string
	}{
		{nil, ""},
		{&request.User{Name: "system:node:n1"}, ""},
		{&request.User{Name: "n1", Groups: []string{request.GroupNodes}}, ""},
		{kubelet(""), `unknown node for user "system:node:"`},
		{kubelet("n2"), "no relationship found between node 'n2' and this object"}, // only a mirror pod refers to the secret
		{kubelet("n3"), "no relationship found between node 'n3' and this object"},
	} {
		decision, reason, _ := a.Authorize(t.Context(), attributesOf(tt.user, "get /secrets a pull"))
		if decision != authorizer.DecisionNoOpinion || reason != tt.reason {
			t.Errorf("%+v: %s %q, want %q", tt.user, decision, reason, tt.reason)
		}
	}
}

func TestGates(t *testing.T) {
	t.Parallel()
	gates, err := feature.Defaults().With(feature.Set{"PodCertificateRequest": false, "KubeletServiceAccountTokenForCredentialProviders": false})
	if err != nil {
		t.Fatal(err)
	}
	a := newCluster(gates)
	for question, want := range map[string]string{
		"get /serviceaccounts a bot":                          "not allowed to get service accounts",
		"create certificates.k8s.io/podcertificaterequests a": "",
	} {
		if decision, reason, _ := a.Authorize(t.Context(), attributesOf(kubelet("n1"), question)); decision == authorizer.DecisionAllow || reason != want {
			t.Errorf("%s: %s %q, want %q", question, decision, reason, want)
		}
	}
}

// TestModel compares the graph with a direct evaluation of pods and volumes during random changes,
// and checks that deleted objects are removed from the graph.
func TestModel(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	number := func(prefix string, n int) string { return fmt.Sprint(prefix, random.IntN(n)) }
	g := newGraph()
	pods, volumes := map[types.NamespacedName]podRefs{}, map[types.NamespacedName]volumeRefs{}
	related := func(node string, key objectKey) bool {
		for _, p := range pods {
			for _, o := range p.objects {
				if p.node != node {
					continue
				}
				if o == key {
					return true
				}
				for _, v := range volumes {
					for _, secret := range v.secrets {
						if v.bound && v.claim == o && secret == key {
							return true
						}
					}
				}
			}
		}
		return false
	}
	change := func() {
		switch at := in("a", number("x", 6)); random.IntN(4) {
		case 0:
			refs := podRefs{node: number("n", 3)}
			if refs.node == "n0" {
				refs.node = ""
			}
			for range random.IntN(4) {
				refs.objects = append(refs.objects, objectKey{kind(random.IntN(3)), "a", number("o", 4)})
			}
			pods[at] = refs
			g.setPod(at, refs)
		case 1:
			delete(pods, at)
			g.removePod(at)
		case 2:
			refs := volumeRefs{bound: random.IntN(4) > 0, claim: objectKey{claims, "a", number("o", 4)}}
			for range random.IntN(3) {
				refs.secrets = append(refs.secrets, objectKey{secrets, "a", number("o", 4)})
			}
			volumes[at] = refs
			g.setVolume(at, refs)
		case 3:
			delete(volumes, at)
			g.removeVolume(at)
		}
	}
	yes := 0
	const questions = 100_000
	for n := range questions {
		if n%10 == 0 {
			change()
		}
		node, key := number("n", 3), objectKey{kind(random.IntN(3)), "a", number("o", 4)}
		if node == "n0" {
			node = ""
		}
		want := related(node, key) && node != ""
		if want {
			yes++
		}
		if got := g.uses(node, key); got != want {
			t.Fatalf("question %d, node %s, %v: %t, want %t", n, node, key, got, want)
		}
	}
	if yes < questions/20 || yes > questions*19/20 {
		t.Errorf("%d of %d were related; want 5 to 95 percent, so that the test covers both results", yes, questions)
	}
	for at := range pods {
		g.removePod(at)
	}
	for at := range volumes {
		g.removeVolume(at)
	}
	if len(g.nodes)+len(g.objects)+len(g.pods)+len(g.volumes) > 0 {
		t.Errorf("remaining in the graph: %+v", g)
	}
}

// BenchmarkAuthorize measures decisions among 100,000 pods on 1,000 nodes, each with two secrets, a
// ConfigMap and a service account. It also reports the memory usage of the graph.
func BenchmarkAuthorize(b *testing.B) {
	const nodes, pods = 1_000, 100_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	a := newAuthorizer(feature.Defaults())
	for i := range pods {
		app := i / 100
		namespace := fmt.Sprintf("n%d", app/10)
		a.graph.setPod(in(namespace, fmt.Sprintf("app-%d-%d", app, i)), podRefs{node: fmt.Sprintf("node%d", i%nodes), objects: []objectKey{
			{secrets, namespace, fmt.Sprintf("s%d", app)}, {secrets, namespace, "pull"}, {configMaps, namespace, "kube-root-ca.crt"}, {serviceAccounts, namespace, "default"},
		}})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	for name, q := range map[string]*authorizer.Attributes{
		"allowed": attributesOf(kubelet("node54"), "get /secrets n0 s0"),
		"refused": attributesOf(kubelet("node54"), "get /secrets n99 s999"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d, _, _ := a.Authorize(b.Context(), q); (d == authorizer.DecisionAllow) != (name == "allowed") {
					b.Fatal(d)
				}
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/pods, "B/pod")
		})
	}
	runtime.KeepAlive(a)
}
