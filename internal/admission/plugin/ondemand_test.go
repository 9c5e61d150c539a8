package plugin_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/config"
	"mainstay.dev/mainstay/internal/admission/plugin"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/rest"
)

func TestAlways(t *testing.T) {
	t.Parallel()
	const refused = `pods "x" is forbidden: admission control is denying all modifications`
	mutated(t, plugin.AlwaysDeny{}, creating(pods(), podNamed("x")), refused)
	validated(t, plugin.AlwaysDeny{}, updating(pods(), podNamed("x"), podNamed("x")), refused)
	if !(plugin.AlwaysDeny{}).Handles(admission.Connect) || (plugin.AlwaysAdmit{}).Handles(admission.Create) {
		t.Error("AlwaysDeny must handle connections, and AlwaysAdmit must not handle creations")
	}
}

func TestAlwaysPullImages(t *testing.T) {
	t.Parallel()
	all := func(s *corev1.PodSpec) {
		s.InitContainers = []corev1.Container{{Name: "i", Image: "j", ImagePullPolicy: "Never"}}
		s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "k"}}}}
	}
	pod := podNamed("x", all)
	validated(t, plugin.AlwaysPullImages{}, creating(pods(), pod), `pods "x" is forbidden: spec.initContainers[0].imagePullPolicy: Unsupported value: "Never": supported values: "Always"`)
	mutated(t, plugin.AlwaysPullImages{}, creating(pods(), pod), "")
	validated(t, plugin.AlwaysPullImages{}, creating(pods(), pod), "")
	if s := pod.Spec; s.InitContainers[0].ImagePullPolicy != "Always" || s.Containers[0].ImagePullPolicy != "Always" || s.Volumes[0].Image.PullPolicy != "Always" {
		t.Errorf("pull policies of %+v", s)
	}
	same := podNamed("x", all)
	mutated(t, plugin.AlwaysPullImages{}, updating(pods(), same, podNamed("x", all)), "")
	if same.Spec.InitContainers[0].ImagePullPolicy != "Never" {
		t.Error("a pod without new images was changed")
	}
}

func TestNamespaceExists(t *testing.T) {
	t.Parallel()
	p := plugin.NamespaceExists{Namespaces: cluster{}}
	in := func(namespace string, r *rest.Resource) error {
		a := creating(r, podNamed("x"))
		a.Namespace = namespace
		return p.Validate(t.Context(), a)
	}
	if err := in("missing", pods()); !apierrors.IsNotFound(err) {
		t.Errorf("error %v", err)
	}
	for _, err := range []error{in("active", pods()), in("", resource("", "nodes", "")), in("missing", resource("", "namespaces", ""))} {
		if err != nil {
			t.Error(err)
		}
	}
}

// creator records the names of created namespaces.
type creator struct {
	cluster
	made *[]string
}

func (m creator) Create(_ context.Context, namespace *corev1.Namespace) (*corev1.Namespace, error) {
	*m.made = append(*m.made, namespace.Name)
	return namespace, nil
}

func TestNamespaceAutoProvision(t *testing.T) {
	t.Parallel()
	var made []string
	p := plugin.NamespaceAutoProvision{Namespaces: creator{made: &made}}
	for _, namespace := range []string{"active", "missing", ""} {
		a := creating(pods(), podNamed("x"))
		a.Namespace = namespace
		mutated(t, p, a, "")
		a.DryRun = true
		mutated(t, p, a, "")
	}
	a := creating(pods(), podNamed("x"))
	a.Namespace = "broken"
	mutated(t, p, a, `pods "x" is forbidden: disk trouble`)
	if !slices.Equal(made, []string{"missing"}) {
		t.Errorf("created namespaces %s", made)
	}
}

func TestLimitPodHardAntiAffinityTopology(t *testing.T) {
	t.Parallel()
	apart := func(keys ...string) *corev1.Pod {
		return podNamed("x", func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
			for _, key := range keys {
				s.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(s.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, corev1.PodAffinityTerm{TopologyKey: key})
			}
		})
	}
	p := plugin.LimitPodHardAntiAffinityTopology{}
	validated(t, p, creating(pods(), podNamed("x")), "")
	validated(t, p, creating(pods(), apart("kubernetes.io/hostname")), "")
	validated(t, p, creating(pods(), apart("kubernetes.io/hostname", "az")),
		`pods "x" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey az but only key kubernetes.io/hostname is allowed`)
}

func TestDenyServiceExternalIPs(t *testing.T) {
	t.Parallel()
	service := func(ips ...string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.ServiceSpec{ExternalIPs: ips}}
	}
	services := resource("", "services", "")
	const refused = `services "x" is forbidden: Use of external IPs is denied by admission control`
	p := plugin.DenyServiceExternalIPs{}
	validated(t, p, creating(services, service()), "")
	validated(t, p, creating(services, service("192.0.2.1")), refused)
	validated(t, p, updating(services, service("192.0.2.1"), service("192.0.2.2", "192.0.2.1")), "")
	validated(t, p, updating(services, service("192.0.2.3"), service("192.0.2.2")), refused)
}

func TestExtendedResourceToleration(t *testing.T) {
	t.Parallel()
	own := corev1.Toleration{Key: "example.com/b", Operator: "Exists", Effect: "NoSchedule", TolerationSeconds: ptr(int64(5))}
	pod := podNamed("x", func(s *corev1.PodSpec) {
		s.Containers = []corev1.Container{container("c", "cpu=1 example.com/b=1", "")}
		s.InitContainers = []corev1.Container{container("i", "example.com/a=1 requests.example.com/c=1", "")}
		s.Tolerations = []corev1.Toleration{own}
	})
	mutated(t, plugin.ExtendedResourceToleration{}, creating(pods(), pod), "")
	own.TolerationSeconds = nil
	want := []corev1.Toleration{own, {Key: "example.com/a", Operator: "Exists", Effect: "NoSchedule"}}
	if diff := cmp.Diff(want, pod.Spec.Tolerations); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestLongPods admits pods with lists of the maximum request size. The time must be linear; comparing all pairs
// would take minutes.
func TestLongPods(t *testing.T) {
	t.Parallel()
	const n = 200_000
	requests, account := corev1.ResourceList{}, accountNamed("default", func(a *corev1.ServiceAccount) {
		a.Annotations = map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}
	})
	long := podNamed("x", func(s *corev1.PodSpec) { s.ServiceAccountName = "default" })
	for i := range n {
		requests[corev1.ResourceName(fmt.Sprint("example.com/", n+i))] = *requests.Cpu()
		account.Secrets = append(account.Secrets, corev1.ObjectReference{Name: fmt.Sprint("secret", n+i)})
		long.Spec.Containers[0].Env = append(long.Spec.Containers[0].Env, secretEnv(fmt.Sprint("secret", n+i))...)
	}
	long.Spec.Containers[0].Resources.Requests = requests
	mutated(t, plugin.ExtendedResourceToleration{}, creating(pods(), long), "")
	mutated(t, plugin.ExtendedResourceToleration{}, creating(pods(), long), "")
	if len(long.Spec.Tolerations) != n {
		t.Errorf("%d tolerations, want %d", len(long.Spec.Tolerations), n)
	}
	validated(t, plugin.ServiceAccount{Accounts: stored[*corev1.ServiceAccount]{account}}, creating(pods(), long), "")

	all := long.Spec.Tolerations
	restriction := plugin.PodTolerationRestriction{Namespaces: annotated(nil), Config: config.PodTolerationRestriction{Default: all, Whitelist: all}}
	const refusal = `pods "x" is forbidden: the pod has %d tolerations, and at most 1000 can be compared`
	mutated(t, restriction, creating(pods(), long), fmt.Sprintf(refusal, 2*n))
	validated(t, restriction, creating(pods(), long), fmt.Sprintf(refusal, n))
}

// annotated returns a namespace named "a" with annotations.
func annotated(annotations map[string]string) stored[*corev1.Namespace] {
	return stored[*corev1.Namespace]{{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: annotations}}}
}

func TestPodNodeSelector(t *testing.T) {
	t.Parallel()
	p := plugin.PodNodeSelector{Namespaces: annotated(map[string]string{"scheduler.alpha.kubernetes.io/node-selector": "env=test,infra=fedora"})}
	const refused = `pods "x" is forbidden: pod node label selector conflicts with its namespace node label selector`
	for name, test := range map[string]struct {
		has     map[string]string
		refusal string
		want    map[string]string
	}{
		"none":     {nil, "", map[string]string{"env": "test", "infra": "fedora"}},
		"more":     {map[string]string{"x": "y", "env": "test"}, "", map[string]string{"x": "y", "env": "test", "infra": "fedora"}},
		"conflict": {map[string]string{"env": "dev"}, refused, map[string]string{"env": "dev"}},
	} {
		pod := podNamed("x", func(s *corev1.PodSpec) { s.NodeSelector = test.has })
		mutated(t, p, creating(pods(), pod), test.refusal)
		validated(t, p, creating(pods(), pod), test.refusal)
		if diff := cmp.Diff(test.want, pod.Spec.NodeSelector); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	pod := podNamed("x")
	mutated(t, plugin.PodNodeSelector{Namespaces: annotated(nil)}, creating(pods(), pod), "")
	if pod.Spec.NodeSelector != nil {
		t.Errorf("selector %v", pod.Spec.NodeSelector)
	}
}

func TestPodTolerationRestriction(t *testing.T) {
	t.Parallel()
	p := plugin.PodTolerationRestriction{Namespaces: annotated(map[string]string{
		"scheduler.alpha.kubernetes.io/defaultTolerations":   `[{"operator":"Exists","effect":"NoSchedule","key":"dedicated"}]`,
		"scheduler.alpha.kubernetes.io/tolerationsWhitelist": `[{"operator":"Exists","key":"dedicated"},{"operator":"Exists","key":"node.kubernetes.io/memory-pressure"}]`,
	})}
	dedicated := corev1.Toleration{Key: "dedicated", Operator: "Exists", Effect: "NoSchedule"}
	pressure := corev1.Toleration{Key: "node.kubernetes.io/memory-pressure", Operator: "Exists", Effect: "NoSchedule"}
	best := podNamed("x")
	mutated(t, p, creating(pods(), best), "")
	if diff := cmp.Diff([]corev1.Toleration{dedicated}, best.Spec.Tolerations); diff != "" {
		t.Errorf("best effort (-want +got):\n%s", diff)
	}
	burstable := podNamed("x", func(s *corev1.PodSpec) { s.Containers = []corev1.Container{container("c", "cpu=1", "")} })
	mutated(t, p, creating(pods(), burstable), "")
	if diff := cmp.Diff([]corev1.Toleration{dedicated, pressure}, burstable.Spec.Tolerations); diff != "" {
		t.Errorf("burstable (-want +got):\n%s", diff)
	}
	foreign := podNamed("x", func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{{Key: "other", Operator: "Exists"}} })
	const refused = "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist"
	if err := p.Mutate(t.Context(), creating(pods(), foreign)); err == nil || err.Error() != refused {
		t.Errorf("error %v", err)
	}
	free := podNamed("x", func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{{Key: "other", Operator: "Exists"}} })
	mutated(t, plugin.PodTolerationRestriction{Namespaces: annotated(nil)}, creating(pods(), free), "")
}

// verbs allows the listed actions, such as "delete pods" or "update deployments/finalizers".
type verbs []string

func (v verbs) Authorize(_ context.Context, a *authorizer.Attributes) (authorizer.Decision, string, error) {
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	if slices.Contains(v, a.Verb+" "+resource) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "why", nil
}

func TestOwnerReferencesPermissionEnforcement(t *testing.T) {
	t.Parallel()
	owned := func(kind string, blocks *bool) *corev1.Pod {
		pod := podNamed("x")
		if kind != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "o", UID: "u", BlockOwnerDeletion: blocks}}
		}
		return pod
	}
	const (
		refused   = `pods "x" is forbidden: `
		noDelete  = refused + "cannot set an ownerRef on a resource you can't delete: why, <nil>"
		noUpdate  = refused + "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: why, <nil>"
		noMapping = refused + `cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion apps/v1 Kind Nope: no matches for kind "Nope" in version "apps/v1"`
	)
	for name, test := range map[string]struct {
		verbs           verbs
		pod, old        *corev1.Pod
		created, update string
	}{
		"no owner":          {nil, owned("", nil), owned("", nil), "", ""},
		"an owner":          {nil, owned("Deployment", nil), owned("", nil), "", noDelete},
		"an owner by right": {verbs{"delete pods"}, owned("Deployment", nil), owned("", nil), "", ""},
		"a blocked owner":   {verbs{"delete pods"}, owned("Deployment", ptr(true)), owned("Deployment", nil), noUpdate, noUpdate},
		"blocked by right":  {verbs{"delete pods", "update deployments/finalizers"}, owned("Deployment", ptr(true)), owned("", nil), "", ""},
		"an unknown owner":  {verbs{"delete pods"}, owned("Nope", ptr(true)), owned("", nil), noMapping, noMapping},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plugin.OwnerReferencesPermissionEnforcement{Authorizer: test.verbs, ResourcesOf: func(gvk schema.GroupVersionKind) []*rest.Resource {
				if gvk.Kind != "Deployment" {
					return nil
				}
				return []*rest.Resource{resource("apps", "deployments", "")}
			}}
			validated(t, p, creating(pods(), test.pod), test.created)
			validated(t, p, updating(pods(), test.pod, test.old), test.update)
			validated(t, p, updating(pods(), test.pod, test.pod), "")
			validated(t, p, updating(resource("", "pods", "status"), test.pod, test.old), "")
		})
	}
}

// TestPodNodeSelectorConfig checks the node selectors from the configuration file: the default selector for
// namespaces without an annotation, and the permitted selectors.
func TestPodNodeSelectorConfig(t *testing.T) {
	t.Parallel()
	p := plugin.PodNodeSelector{Namespaces: annotated(nil), Config: config.PodNodeSelector{
		Default: labels.Set{"env": "dev"}, Allowed: map[string]labels.Set{"a": {"env": "dev", "disk": "fast"}},
	}}
	selecting := func(selector map[string]string) *corev1.Pod {
		return podNamed("x", func(s *corev1.PodSpec) { s.NodeSelector = selector })
	}
	pod := selecting(map[string]string{"disk": "fast"})
	mutated(t, p, creating(pods(), pod), "")
	if diff := cmp.Diff(map[string]string{"env": "dev", "disk": "fast"}, pod.Spec.NodeSelector); diff != "" {
		t.Errorf("selector (-want +got):\n%s", diff)
	}
	const foreign = `pods "x" is forbidden: pod node label selector labels conflict with its namespace whitelist`
	mutated(t, p, creating(pods(), selecting(map[string]string{"disk": "slow"})), foreign)
	validated(t, p, creating(pods(), selecting(map[string]string{"other": "x"})), foreign)
	p.Namespaces = annotated(map[string]string{"scheduler.alpha.kubernetes.io/node-selector": ""})
	pod = selecting(nil)
	mutated(t, p, creating(pods(), pod), "")
	if len(pod.Spec.NodeSelector) > 0 {
		t.Errorf("namespace with an empty selector: %v", pod.Spec.NodeSelector)
	}
}

// TestPodTolerationRestrictionConfig checks that the configured tolerations apply to namespaces without the
// annotation. An annotation with an empty list overrides them.
func TestPodTolerationRestrictionConfig(t *testing.T) {
	t.Parallel()
	ofCluster := config.PodTolerationRestriction{
		Default:   []corev1.Toleration{{Key: "d", Operator: corev1.TolerationOpExists}},
		Whitelist: []corev1.Toleration{{Key: "d", Operator: corev1.TolerationOpExists}},
	}
	for name, tt := range map[string]struct {
		annotations map[string]string
		want        int
	}{
		"no annotation": {nil, 1},
		"empty":         {map[string]string{"scheduler.alpha.kubernetes.io/defaultTolerations": ""}, 0},
		"none":          {map[string]string{"scheduler.alpha.kubernetes.io/defaultTolerations": "[]"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plugin.PodTolerationRestriction{Namespaces: annotated(tt.annotations), Config: ofCluster}
			pod := podNamed("x")
			mutated(t, p, creating(pods(), pod), "")
			if len(pod.Spec.Tolerations) != tt.want {
				t.Errorf("tolerations %v", pod.Spec.Tolerations)
			}
			other := podNamed("x", func(s *corev1.PodSpec) {
				s.Tolerations = []corev1.Toleration{{Key: "o", Operator: corev1.TolerationOpExists}}
			})
			if err := p.Validate(t.Context(), creating(pods(), other)); err == nil {
				t.Error("a toleration outside the whitelist of the cluster was accepted")
			}
		})
	}
}

// TestLongUpdates updates objects with lists of the maximum request size. Comparing all pairs would take minutes.
func TestLongUpdates(t *testing.T) {
	t.Parallel()
	const n = 200_000
	service, pod := &corev1.Service{}, podNamed("x")
	for i := range n {
		service.Spec.ExternalIPs = append(service.Spec.ExternalIPs, fmt.Sprint("10.", n+i))
		pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{UID: types.UID(fmt.Sprint(n + i)), BlockOwnerDeletion: ptr(true)})
	}
	reversedService, reversedPod := service.DeepCopy(), pod.DeepCopy()
	slices.Reverse(reversedService.Spec.ExternalIPs)
	slices.Reverse(reversedPod.OwnerReferences)
	validated(t, plugin.DenyServiceExternalIPs{}, updating(resource("", "services", ""), reversedService, service), "")
	validated(t, plugin.OwnerReferencesPermissionEnforcement{Authorizer: verbs{"delete pods"}}, updating(pods(), reversedPod, pod), "")
}
