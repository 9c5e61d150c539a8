package plugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/admission"
)

// AlwaysPullImages sets the image pull policy to Always, so that the registry authorizes each pod. Without the
// plugin, a pod can use private images that are already present on its node.
type AlwaysPullImages struct{ onCreateOrUpdate }

var (
	_ admission.Mutator   = AlwaysPullImages{}
	_ admission.Validator = AlwaysPullImages{}
)

func alwaysPullImagesPlugin() Registration {
	return Registration{
		Name: AlwaysPullImages{}.Name(), Description: "sets the image pull policy of pods to Always",
		New: func(Dependencies) admission.Plugin { return AlwaysPullImages{} },
	}
}

// Name implements admission.Plugin.
func (AlwaysPullImages) Name() string { return "AlwaysPullImages" }

// Mutate implements admission.Mutator.
func (AlwaysPullImages) Mutate(_ context.Context, a *admission.Attributes) error {
	pod := podWithNewImages(a)
	if pod == nil {
		return nil
	}
	eachImage(&pod.Spec, func(_ *field.Path, _ string, policy *corev1.PullPolicy) { *policy = corev1.PullAlways })
	return nil
}

// Validate implements admission.Validator. It repeats the check, because webhooks may have changed
// the pull policies.
func (AlwaysPullImages) Validate(_ context.Context, a *admission.Attributes) error {
	pod := podWithNewImages(a)
	if pod == nil {
		return nil
	}
	var err error
	eachImage(&pod.Spec, func(path *field.Path, _ string, policy *corev1.PullPolicy) {
		if *policy != corev1.PullAlways && err == nil {
			err = reject(a, field.NotSupported(path, *policy, []corev1.PullPolicy{corev1.PullAlways}))
		}
	})
	return err
}

// podWithNewImages returns the pod if the request adds or changes an image, otherwise nil.
func podWithNewImages(a *admission.Attributes) *corev1.Pod {
	pod := objectOf[corev1.Pod](a, "", "pods")
	old := oldOf[corev1.Pod](a)
	if pod == nil || old == nil {
		return pod
	}
	had, more := make(map[string]bool), false
	eachImage(&old.Spec, func(_ *field.Path, image string, _ *corev1.PullPolicy) { had[image] = true })
	eachImage(&pod.Spec, func(_ *field.Path, image string, _ *corev1.PullPolicy) { more = more || !had[image] })
	if !more {
		return nil
	}
	return pod
}

// eachImage calls f with each image of a pod, its pull policy and the path of the policy.
func eachImage(spec *corev1.PodSpec, f func(policyPath *field.Path, image string, policy *corev1.PullPolicy)) {
	path := field.NewPath("spec")
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		f(path.Child("initContainers").Index(i).Child("imagePullPolicy"), c.Image, &c.ImagePullPolicy)
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		f(path.Child("containers").Index(i).Child("imagePullPolicy"), c.Image, &c.ImagePullPolicy)
	}
	for i := range spec.EphemeralContainers {
		c := &spec.EphemeralContainers[i]
		f(path.Child("ephemeralContainers").Index(i).Child("imagePullPolicy"), c.Image, &c.ImagePullPolicy)
	}
	for i := range spec.Volumes {
		if image := spec.Volumes[i].Image; image != nil {
			f(path.Child("volumes").Index(i).Child("image", "pullPolicy"), image.Reference, &image.PullPolicy)
		}
	}
}
