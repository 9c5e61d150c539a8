package plugin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/rest"
)

const (
	defaultAccount = "default"
	// enforceMountableSecrets is an annotation of service accounts. It restricts their pods to the
	// secrets that the service account lists.
	enforceMountableSecrets = "kubernetes.io/enforce-mountable-secrets"
	tokenVolumePrefix       = "kube-api-access-"
	tokenMountPath          = "/var/run/secrets/kubernetes.io/serviceaccount"
	// tokenSeconds is one hour plus 7 seconds, as in kube-apiserver.
	tokenSeconds = 60*60 + 7
	rootCA       = "kube-root-ca.crt"
)

// ServiceAccount sets the service account of new pods, and adds the account's pull secrets and a volume with
// its token. It rejects secrets that a restricted service account does not list.
type ServiceAccount struct {
	Accounts Getter[*corev1.ServiceAccount]
	// Provide is called if the default service account of a namespace is missing. It creates the account, or
	// waits until the controller has created it. The account may still be missing when Provide returns. If
	// Provide is nil, the request is rejected immediately.
	Provide func(ctx context.Context, namespace string)
}

var (
	_ admission.Mutator   = ServiceAccount{}
	_ admission.Validator = ServiceAccount{}
)

func serviceAccountPlugin() Registration {
	return Registration{
		Name: ServiceAccount{}.Name(), Description: "adds a service account, its token and its image pull secrets to pods",
		OnByDefault: true,
		New: func(d Dependencies) admission.Plugin {
			return ServiceAccount{Accounts: cached[*corev1.ServiceAccount](d, corev1.SchemeGroupVersion, "serviceaccounts"), Provide: d.ProvideAccount}
		},
	}
}

// Name implements admission.Plugin.
func (ServiceAccount) Name() string { return "ServiceAccount" }

// Handles implements admission.Plugin.
func (ServiceAccount) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Mutate implements admission.Mutator. It does not change mirror pods.
func (p ServiceAccount) Mutate(ctx context.Context, a *admission.Attributes) error {
	pod := objectOf[corev1.Pod](a, "", "pods")
	if pod == nil || a.Operation != admission.Create {
		return nil
	}
	if isMirror(pod) {
		return p.validateNew(ctx, a, pod)
	}
	spec := &pod.Spec
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName = defaultAccount
	}
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	account, err := p.account(ctx, a, spec.ServiceAccountName)
	if err != nil {
		return err
	}
	if mountsToken(spec, account) {
		mountToken(spec)
	}
	if len(spec.ImagePullSecrets) == 0 {
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, account.ImagePullSecrets...)
	}
	return limitSecrets(a, pod, account)
}

// Validate implements admission.Validator.
func (p ServiceAccount) Validate(ctx context.Context, a *admission.Attributes) error {
	if pod, _ := a.Object.(*corev1.Pod); pod != nil && a.Operation == admission.Update && isFor(a, "", "pods", "ephemeralcontainers") {
		return p.validateEphemeral(ctx, a, pod)
	}
	if pod := objectOf[corev1.Pod](a, "", "pods"); pod != nil && a.Operation == admission.Create {
		return p.validateNew(ctx, a, pod)
	}
	return nil
}

func (p ServiceAccount) validateNew(ctx context.Context, a *admission.Attributes, pod *corev1.Pod) error {
	if isMirror(pod) {
		if err := validateMirror(pod); err != nil {
			return reject(a, err)
		}
		return nil
	}
	if pod.Spec.ServiceAccountName == "" {
		return reject(a, fmt.Errorf("no service account specified for pod %s/%s", a.Namespace, pod.Name))
	}
	account, err := p.account(ctx, a, pod.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	return limitSecrets(a, pod, account)
}

// validateEphemeral rejects ephemeral containers that use secrets which the restricted service account does not
// list.
func (p ServiceAccount) validateEphemeral(ctx context.Context, a *admission.Attributes, pod *corev1.Pod) error {
	account, err := p.account(ctx, a, pod.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	if !enforces(account) {
		return nil
	}
	mountable := mountableSecrets(account)
	for i := range pod.Spec.EphemeralContainers {
		c := (*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		if err := mountable.allowContainer("ephemeral container", c); err != nil {
			return reject(a, err)
		}
	}
	return nil
}

func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// validateMirror rejects mirror pods that reference service accounts or secrets. The kubelet runs a mirror pod
// even if it is rejected, but the rejection keeps the kubelet from gaining access to secrets.
func validateMirror(pod *corev1.Pod) error {
	switch {
	case pod.Spec.ServiceAccountName != "":
		return errors.New("a mirror pod may not reference service accounts")
	case usesSecrets(&pod.Spec):
		return errors.New("a mirror pod may not reference secrets")
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.ServiceAccountToken != nil {
				return errors.New("a mirror pod may not use ServiceAccountToken volume projections")
			}
		}
	}
	return nil
}

// account returns the service account of a pod. It calls Provide if the default account is missing.
func (p ServiceAccount) account(ctx context.Context, a *admission.Attributes, name string) (*corev1.ServiceAccount, error) {
	key := types.NamespacedName{Namespace: a.Namespace, Name: name}
	account, err := p.Accounts.Get(ctx, key)
	if apierrors.IsNotFound(err) && name == defaultAccount && p.Provide != nil {
		p.Provide(ctx, a.Namespace)
		rest.ReadPointFrom(ctx).Reset()
		account, err = p.Accounts.Get(ctx, key)
	}
	if apierrors.IsNotFound(err) {
		err = apierrors.NewNotFound(corev1.Resource("serviceaccount"), name) // kube-apiserver's singular
	}
	if err != nil {
		return nil, reject(a, fmt.Errorf("error looking up service account %s: %w", key, err))
	}
	return account, nil
}

// mountsToken reports whether the containers of a pod mount the token of its service account. The pod's setting
// overrides the account's setting. By default, the token is mounted.
func mountsToken(spec *corev1.PodSpec, account *corev1.ServiceAccount) bool {
	switch {
	case spec.AutomountServiceAccountToken != nil:
		return *spec.AutomountServiceAccountToken
	case account.AutomountServiceAccountToken != nil:
		return *account.AutomountServiceAccountToken
	}
	return true
}

// mountToken mounts the token in each container that does not have another volume at the same path.
func mountToken(spec *corev1.PodSpec) {
	name, present := tokenVolume(spec)
	needed := false
	for _, containers := range [...][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			if !mountsAt(&containers[i], tokenMountPath) {
				containers[i].VolumeMounts = append(containers[i].VolumeMounts, corev1.VolumeMount{Name: name, ReadOnly: true, MountPath: tokenMountPath})
				needed = true
			}
		}
	}
	if needed && !present {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: tokenSource()}})
	}
}

// tokenVolume returns the name of the token volume, and reports whether the pod already has this volume.
func tokenVolume(spec *corev1.PodSpec) (name string, present bool) {
	for i := range spec.Volumes {
		if name := spec.Volumes[i].Name; strings.HasPrefix(name, tokenVolumePrefix) {
			return name, true
		}
	}
	return tokenVolumePrefix + rand.String(5), false
}

func mountsAt(c *corev1.Container, path string) bool {
	for i := range c.VolumeMounts {
		if c.VolumeMounts[i].MountPath == path {
			return true
		}
	}
	return false
}

// tokenSource returns the volume that client-go expects in a pod: the token, the CA bundle and the namespace.
func tokenSource() *corev1.ProjectedVolumeSource {
	return &corev1.ProjectedVolumeSource{
		DefaultMode: new(corev1.ProjectedVolumeSourceDefaultMode),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(tokenSeconds))}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: rootCA}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}
}

// enforces reports whether a service account restricts the secrets of its pods.
func enforces(account *corev1.ServiceAccount) bool {
	enforced, _ := strconv.ParseBool(account.Annotations[enforceMountableSecrets])
	return enforced
}

// limitSecrets returns an error if a pod uses secrets that its restricted service account does not list.
func limitSecrets(a *admission.Attributes, pod *corev1.Pod, account *corev1.ServiceAccount) error {
	if !enforces(account) {
		return nil
	}
	if err := mountableSecrets(account).allow(&pod.Spec); err != nil {
		return reject(a, err)
	}
	return nil
}
