package podspec

import (
	"encoding/json"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

// AppArmorContainer is the prefix of the annotations that contain the AppArmor profiles of containers. It is
// followed by the name of the container.
const AppArmorContainer = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix

// Annotations that have been superseded by fields, and their values.
const (
	seccompPod         = "seccomp.security.alpha.kubernetes.io/pod"
	seccompContainer   = "container.seccomp.security.alpha.kubernetes.io/"
	seccompLocal       = "localhost/"
	seccompDefault     = "runtime/default"
	seccompOldDefault  = "docker/default"
	seccompUnconfined  = "unconfined"
	tolerationsKey     = "scheduler.alpha.kubernetes.io/tolerations"
	appArmorLocal      = corev1.DeprecatedAppArmorBetaProfileNamePrefix
	appArmorDefault    = corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	appArmorUnconfined = corev1.DeprecatedAppArmorBetaProfileNameUnconfined
)

// ValidateAnnotations validates those annotations of a pod or template that Kubernetes interprets. old is nil
// on creation.
func ValidateAnnotations(f validation.Field, meta, old *metav1.ObjectMeta, spec *corev1.PodSpec) {
	if mirror, ok := meta.Annotations[corev1.MirrorPodAnnotationKey]; ok && spec.NodeName == "" {
		f.Key(corev1.MirrorPodAnnotationKey).Invalid(mirror, "must set spec.nodeName if mirror pod annotation is set")
	}
	if !isDeletionCost(meta) && f.Enabled(feature.PodDeletionCost) && (old == nil || isDeletionCost(old)) {
		f.Key(corev1.PodDeletionCost).Invalid(meta.Annotations[corev1.PodDeletionCost], "must be a 32bit integer")
	}
	if text := meta.Annotations[tolerationsKey]; text != "" {
		validateTolerationsText(f, text)
	}
	var names map[string]bool
	for key, value := range meta.Annotations {
		switch {
		case key == seccompPod || strings.HasPrefix(key, seccompContainer):
			validateSeccompText(f.Child(key), value)
		case strings.HasPrefix(key, AppArmorContainer):
			if names == nil {
				names = containerNames(spec)
			}
			validateAppArmorText(f.Key(key), strings.TrimPrefix(key, AppArmorContainer), value, names)
		}
	}
}

// isDeletionCost reports whether the pod deletion cost is either not set or a 32-bit integer without a plus
// sign or leading zeros.
func isDeletionCost(meta *metav1.ObjectMeta) bool {
	cost, ok := meta.Annotations[corev1.PodDeletionCost]
	if !ok {
		return true
	}
	_, err := strconv.ParseInt(cost, 10, 32)
	return err == nil && (cost == "0" || cost[0] == '-' || '1' <= cost[0] && cost[0] <= '9')
}

func validateTolerationsText(f validation.Field, text string) {
	var spec corev1.PodSpec
	if err := json.Unmarshal([]byte(text), &spec.Tolerations); err != nil {
		f.Invalid(tolerationsKey, err.Error())
		return
	}
	p := pod{spec: &spec}
	p.validateTolerations(f.Child(tolerationsKey))
}

func validateSeccompText(f validation.Field, profile string) {
	if path, local := strings.CutPrefix(profile, seccompLocal); local {
		validateDescending(f, path)
		return
	}
	switch profile {
	case seccompDefault, seccompOldDefault, seccompUnconfined:
	default:
		f.Invalid(profile, "must be a valid seccomp profile")
	}
}

func validateAppArmorText(f validation.Field, container, profile string, names map[string]bool) {
	if !names[container] {
		f.Invalid(container, "container not found")
	}
	if profile != "" && profile != appArmorDefault && profile != appArmorUnconfined && !strings.HasPrefix(profile, appArmorLocal) {
		f.Invalid(profile, "invalid AppArmor profile name: "+strconv.Quote(profile))
	}
}

func containerNames(spec *corev1.PodSpec) map[string]bool {
	names := make(map[string]bool, len(spec.Containers)+len(spec.InitContainers))
	eachContainer(spec, func(c *corev1.Container) { names[c.Name] = true })
	return names
}

// ValidateAnnotationsUnchanged rejects changes of the mirror pod annotation and of AppArmor annotations.
func ValidateAnnotationsUnchanged(f validation.Field, meta, old *metav1.ObjectMeta) {
	for key, value := range old.Annotations {
		if now, ok := meta.Annotations[key]; !ok || now != value {
			forbidChange(f, key, "remove or update")
		}
	}
	for key := range meta.Annotations {
		if _, ok := old.Annotations[key]; !ok {
			forbidChange(f, key, "add")
		}
	}
}

func forbidChange(f validation.Field, key, change string) {
	switch {
	case key == corev1.MirrorPodAnnotationKey:
		f.Key(key).Forbidden("may not " + change + " mirror pod annotation")
	case strings.HasPrefix(key, AppArmorContainer):
		f.Key(key).Forbidden("may not " + change + " AppArmor annotations")
	}
}

// ValidateAnnotationsMatchFields requires that annotations of a new pod match the fields that have superseded
// them, if both are set.
func ValidateAnnotationsMatchFields(f validation.Field, meta *metav1.ObjectMeta, spec *corev1.PodSpec) {
	if !hasProfiles(meta) {
		return
	}
	p := pod{spec: spec}
	var appArmor *corev1.AppArmorProfile
	if sc := spec.SecurityContext; sc != nil {
		appArmor = sc.AppArmorProfile
		if text, ok := meta.Annotations[seccompPod]; ok {
			matchSeccomp(f.Child("securityContext").Child("seccompProfile"), sc.SeccompProfile, text)
		}
	}
	windows := spec.OS != nil && spec.OS.Name == corev1.Windows
	p.eachContainer(f, func(at validation.Field, c *corev1.Container) {
		at, profile := at.Child("securityContext"), appArmor
		if sc := c.SecurityContext; sc != nil {
			if text, ok := meta.Annotations[seccompContainer+c.Name]; ok {
				matchSeccomp(at.Child("seccompProfile"), sc.SeccompProfile, text)
			}
			if sc.AppArmorProfile != nil {
				profile = sc.AppArmorProfile
			}
		}
		if text, ok := meta.Annotations[AppArmorContainer+c.Name]; ok && !windows {
			matchAppArmor(at.Child("appArmorProfile"), profile, text)
		}
	})
}

func hasProfiles(meta *metav1.ObjectMeta) bool {
	for key := range meta.Annotations {
		if key == seccompPod || strings.HasPrefix(key, seccompContainer) || strings.HasPrefix(key, AppArmorContainer) {
			return true
		}
	}
	return false
}

func matchSeccomp(f validation.Field, profile *corev1.SeccompProfile, text string) {
	if profile == nil {
		return
	}
	var match bool
	switch profile.Type {
	case corev1.SeccompProfileTypeUnconfined:
		match = text == seccompUnconfined
	case corev1.SeccompProfileTypeRuntimeDefault:
		match = text == seccompDefault || text == seccompOldDefault
	case corev1.SeccompProfileTypeLocalhost:
		var path string
		if path, match = strings.CutPrefix(text, seccompLocal); match && (profile.LocalhostProfile == nil || *profile.LocalhostProfile != path) {
			f.Child("localhostProfile").Forbidden("seccomp profile in annotation and field must match")
		}
	default:
		return
	}
	if !match {
		f.Child("type").Forbidden("seccomp type in annotation and field must match")
	}
}

func matchAppArmor(f validation.Field, profile *corev1.AppArmorProfile, text string) {
	if profile == nil {
		return
	}
	var match bool
	switch profile.Type {
	case corev1.AppArmorProfileTypeUnconfined:
		match = text == appArmorUnconfined
	case corev1.AppArmorProfileTypeRuntimeDefault:
		match = text == appArmorDefault
	case corev1.AppArmorProfileTypeLocalhost:
		var path string
		if path, match = strings.CutPrefix(text, appArmorLocal); match && (profile.LocalhostProfile == nil || *profile.LocalhostProfile != path) {
			f.Child("localhostProfile").Forbidden("apparmor profile in annotation and field must match")
		}
	default:
		return
	}
	if !match {
		f.Child("type").Forbidden("apparmor type in annotation and field must match")
	}
}

// AppArmorField converts an AppArmor annotation to the corresponding field. It returns nil if the annotation
// is invalid.
func AppArmorField(text string) *corev1.AppArmorProfile {
	switch path, local := strings.CutPrefix(text, appArmorLocal); {
	case text == appArmorUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case text == appArmorDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case local && path != "" && strings.TrimSpace(path) == path && len(path) <= maxAppArmorProfile:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &path}
	}
	return nil
}
