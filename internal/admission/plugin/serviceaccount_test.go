package plugin_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission/plugin"
)

func accountNamed(name string, change ...func(*corev1.ServiceAccount)) *corev1.ServiceAccount {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	for _, f := range change {
		f(account)
	}
	return account
}

func accounts() stored[*corev1.ServiceAccount] {
	return stored[*corev1.ServiceAccount]{
		accountNamed("default"),
		accountNamed("quiet", func(a *corev1.ServiceAccount) { a.AutomountServiceAccountToken = ptr(false) }),
		accountNamed("pulls", func(a *corev1.ServiceAccount) { a.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}} }),
		accountNamed("strict", func(a *corev1.ServiceAccount) {
			a.Annotations = map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}
			a.Secrets = []corev1.ObjectReference{{Name: "s"}}
		}),
	}
}

func secretEnv(name string) []corev1.EnvVar {
	return []corev1.EnvVar{{Name: "E", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}}
}

func secretVolume(name string) []corev1.Volume {
	return []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}}}
}

func TestServiceAccount(t *testing.T) {
	t.Parallel()
	const notReferenced = ` is not allowed because service account strict does not reference that secret`
	for name, test := range map[string]struct {
		change  func(*corev1.PodSpec)
		refusal string
		account string
		mounts  int // of the token, in all containers
	}{
		"the default account": {change: func(*corev1.PodSpec) {}, account: "default", mounts: 1},
		"another one, and two containers": {change: func(s *corev1.PodSpec) {
			s.ServiceAccountName = "pulls"
			s.InitContainers = []corev1.Container{{Name: "i", Image: "i"}}
		}, account: "pulls", mounts: 2},
		"account without automount":           {change: func(s *corev1.PodSpec) { s.ServiceAccountName = "quiet" }, account: "quiet"},
		"pod overrides the account's setting": {change: func(s *corev1.PodSpec) { s.ServiceAccountName, s.AutomountServiceAccountToken = "quiet", ptr(true) }, account: "quiet", mounts: 1},
		"pod without automount":               {change: func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = ptr(false) }, account: "default"},
		"a container with a volume of its own": {change: func(s *corev1.PodSpec) {
			s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "x", MountPath: tokenPath}}
		}, account: "default"},
		"no such account":                    {change: func(s *corev1.PodSpec) { s.ServiceAccountName = "none" }, refusal: `pods "x" is forbidden: error looking up service account a/none: serviceaccount "none" not found`},
		"a store that returns an error":      {change: func(s *corev1.PodSpec) { s.ServiceAccountName = "broken" }, refusal: `pods "x" is forbidden: error looking up service account a/broken: disk trouble`},
		"a secret that the account has":      {change: func(s *corev1.PodSpec) { s.ServiceAccountName, s.Volumes = "strict", secretVolume("s") }, account: "strict", mounts: 1},
		"a secret that the account does not": {change: func(s *corev1.PodSpec) { s.ServiceAccountName, s.Volumes = "strict", secretVolume("o") }, refusal: `pods "x" is forbidden: volume with secret.secretName="o"` + notReferenced},
		"a variable from such a secret":      {change: func(s *corev1.PodSpec) { s.ServiceAccountName, s.Containers[0].Env = "strict", secretEnv("o") }, refusal: `pods "x" is forbidden: container c with envVar E referencing secret.secretName="o"` + notReferenced},
		"a pull secret that the account has not": {change: func(s *corev1.PodSpec) {
			s.ServiceAccountName, s.ImagePullSecrets = "strict", []corev1.LocalObjectReference{{Name: "o"}}
		}, refusal: `pods "x" is forbidden: imagePullSecrets[0].name="o" is not allowed because service account strict does not reference that imagePullSecret`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podNamed("x", test.change)
			p := plugin.ServiceAccount{Accounts: accounts()}
			mutated(t, p, creating(pods(), pod), test.refusal)
			validated(t, p, creating(pods(), pod), test.refusal)
			if test.refusal != "" {
				return
			}
			if pod.Spec.ServiceAccountName != test.account || pod.Spec.DeprecatedServiceAccount != test.account || tokenMounts(pod) != test.mounts {
				t.Errorf("account %q, %q, %d mounts of the token", pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount, tokenMounts(pod))
			}
			before := pod.DeepCopy()
			mutated(t, p, creating(pods(), pod), "")
			if diff := cmp.Diff(before, pod); diff != "" {
				t.Errorf("the second mutating pass changed the pod (-first +second):\n%s", diff)
			}
		})
	}
}

const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// tokenMounts returns the number of containers that mount the token volume.
func tokenMounts(pod *corev1.Pod) int {
	volumes, n := map[string]bool{}, 0
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = v.Projected != nil && *v.Projected.Sources[0].ServiceAccountToken.ExpirationSeconds == 3607
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			for _, m := range c.VolumeMounts {
				if m.MountPath == tokenPath && m.ReadOnly && volumes[m.Name] {
					n++
				}
			}
		}
	}
	return n
}

// TestServiceAccountOfMirrorPods checks that mirror pods are not modified and may not use secrets.
func TestServiceAccountOfMirrorPods(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		change  func(*corev1.PodSpec)
		refusal string
	}{
		{func(*corev1.PodSpec) {}, ""},
		{func(s *corev1.PodSpec) { s.ServiceAccountName = "default" }, `pods "x" is forbidden: a mirror pod may not reference service accounts`},
		{func(s *corev1.PodSpec) { s.Volumes = secretVolume("s") }, `pods "x" is forbidden: a mirror pod may not reference secrets`},
		{func(s *corev1.PodSpec) { s.Containers[0].Env = secretEnv("s") }, `pods "x" is forbidden: a mirror pod may not reference secrets`},
		{func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}}}}}}
		}, `pods "x" is forbidden: a mirror pod may not use ServiceAccountToken volume projections`},
	} {
		pod := podNamed("x", test.change)
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "m"}
		before := pod.DeepCopy()
		p := plugin.ServiceAccount{Accounts: accounts()}
		mutated(t, p, creating(pods(), pod), test.refusal)
		validated(t, p, creating(pods(), pod), test.refusal)
		if diff := cmp.Diff(before, pod); diff != "" {
			t.Errorf("a mirror pod changed (-before +after):\n%s", diff)
		}
	}
}

// TestServiceAccountProvided checks that Provide is called for a missing default service account, but not for
// other missing service accounts.
func TestServiceAccountProvided(t *testing.T) {
	t.Parallel()
	asked := 0
	p := plugin.ServiceAccount{Accounts: stored[*corev1.ServiceAccount]{}, Provide: func(_ context.Context, namespace string) {
		if asked++; namespace != "a" {
			t.Errorf("Provide was called for namespace %q", namespace)
		}
	}}
	mutated(t, p, creating(pods(), podNamed("x")), `pods "x" is forbidden: error looking up service account a/default: serviceaccount "default" not found`)
	mutated(t, p, creating(pods(), podNamed("x", func(s *corev1.PodSpec) { s.ServiceAccountName = "b" })), `pods "x" is forbidden: error looking up service account a/b: serviceaccount "b" not found`)
	if asked != 1 {
		t.Errorf("Provide was called %d times", asked)
	}
}

// TestServiceAccountOfEphemeralContainers checks that the secrets of ephemeral containers are restricted as
// well.
func TestServiceAccountOfEphemeralContainers(t *testing.T) {
	t.Parallel()
	pod := podNamed("x", func(s *corev1.PodSpec) {
		s.ServiceAccountName = "strict"
		s.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Env: secretEnv("o")}}}
	})
	p := plugin.ServiceAccount{Accounts: accounts()}
	validated(t, p, updating(resource("", "pods", "ephemeralcontainers"), pod, pod),
		`pods "x" is forbidden: ephemeral container e with envVar E referencing secret.secretName="o" is not allowed because service account strict does not reference that secret`)
	validated(t, p, updating(pods(), pod, pod), "")
}
