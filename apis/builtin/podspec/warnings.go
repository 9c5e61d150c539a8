package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/apis/builtin/validation"
)

// TemplateWarnings returns what the author of a template should know of it, where
// it is new or has changed. path is that of its specification.
func TemplateWarnings(path string, template, old *corev1.PodTemplateSpec) []string {
	if old != nil && validation.Equal(&template.Spec, &old.Spec) {
		return nil
	}
	return Warnings(path, &template.Spec)
}

// Warnings returns what the author of a specification should know of it, although
// it is valid.
func Warnings(path string, spec *corev1.PodSpec) []string {
	w := warner{spec: spec, path: path}
	w.affinity()
	w.volumes()
	w.lists()
	for i := range spec.InitContainers {
		w.container("initContainers", i, &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		w.container("containers", i, &spec.Containers[i])
	}
	if seconds := spec.TerminationGracePeriodSeconds; seconds != nil && *seconds < 0 {
		w.say("%s.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1", path)
	}
	return w.said
}

// maxWarnings is how many warnings there are of one specification at most.
const maxWarnings = 100

type warner struct {
	spec *corev1.PodSpec
	path string
	said []string
}

func (w *warner) say(format string, args ...any) {
	if len(w.said) < maxWarnings {
		w.said = append(w.said, fmt.Sprintf(format, args...))
	}
}

// affinity: selectors that are left out choose nothing, and not everything.
func (w *warner) affinity() {
	const nothing = ": a null labelSelector results in matching no pod"
	terms := func(kind string, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			if required[i].LabelSelector == nil {
				w.say("%s.affinity.%s.%s[%d].labelSelector"+nothing, w.path, kind, requiredTerms, i)
			}
		}
		for i := range preferred {
			if preferred[i].PodAffinityTerm.LabelSelector == nil {
				w.say("%s.affinity.%s.%s[%d].podAffinityTerm.labelSelector"+nothing, w.path, kind, preferredTerms, i)
			}
		}
	}
	if a := w.spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			terms("podAffinity", a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if a.PodAntiAffinity != nil {
			terms("podAntiAffinity", a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	for i := range w.spec.TopologySpreadConstraints {
		if w.spec.TopologySpreadConstraints[i].LabelSelector == nil {
			w.say("%s.topologySpreadConstraints[%d].labelSelector"+nothing, w.path, i)
		}
	}
}

func (w *warner) lists() {
	ips := validation.NewSeen[string](len(w.spec.HostAliases))
	for i := range w.spec.HostAliases {
		if ip := w.spec.HostAliases[i].IP; ips.Again(ip) {
			w.say("%s.hostAliases[%d].ip: duplicate ip %q", w.path, i, ip)
		}
	}
	secrets := validation.NewSeen[string](len(w.spec.ImagePullSecrets))
	for i := range w.spec.ImagePullSecrets {
		switch name := w.spec.ImagePullSecrets[i].Name; {
		case name == "":
			w.say("%s.imagePullSecrets[%d].name: invalid empty name %q", w.path, i, name)
		case secrets.Again(name):
			w.say("%s.imagePullSecrets[%d].name: duplicate name %q", w.path, i, name)
		}
	}
}

func (w *warner) container(list string, i int, c *corev1.Container) {
	names := validation.NewSeen[string](len(c.Env))
	for j := range c.Env {
		if name := c.Env[j].Name; names.Again(name) {
			w.say("%s.%s[%d].env[%d]: hides previous definition of %q, which may be dropped when using apply", w.path, list, i, j, name)
		}
	}
	for j := range c.Ports {
		if port := &c.Ports[j]; port.HostIP != "" && port.HostPort == 0 {
			w.say("%s.%s[%d].ports[%d]: hostIP set without hostPort: %+v", w.path, list, i, j, *port)
		}
	}
	w.fractions(list, i, "limits", c.Resources.Limits)
	w.fractions(list, i, "requests", c.Resources.Requests)
}

// fractions: there are no parts of a byte.
func (w *warner) fractions(list string, i int, field string, resources corev1.ResourceList) {
	for _, name := range [...]corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if quantity, ok := resources[name]; ok && quantity.MilliValue()%1000 != 0 {
			w.say("%s.%s[%d].resources.%s[%s]: fractional byte value %q is invalid, must be an integer", w.path, list, i, field, name, quantity.String())
		}
	}
}

func (w *warner) volumes() {
	for i := range w.spec.Volumes {
		volume := &w.spec.Volumes[i]
		if s := volume.Secret; s != nil {
			w.overlaps(volume.Name, "Secret", s.SecretName, s.Items)
		}
		if s := volume.ConfigMap; s != nil {
			w.overlaps(volume.Name, "ConfigMap", s.Name, s.Items)
		}
		if s := volume.Projected; s != nil {
			for j := range s.Sources {
				if s.Sources[j] == (corev1.VolumeProjection{}) {
					w.say("volume %q (Projected) has no sources provided", volume.Name)
				}
			}
		}
		if s := volume.Ephemeral; s != nil && s.VolumeClaimTemplate != nil {
			for name, quantity := range s.VolumeClaimTemplate.Spec.Resources.Requests {
				if name == corev1.ResourceStorage && quantity.MilliValue()%1000 != 0 {
					w.say("%s.volumes[%d].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: fractional byte value %q is invalid, must be an integer",
						w.path, i, quantity.String())
				}
			}
		}
	}
}

// overlaps: of two files of one path, the later one stays.
func (w *warner) overlaps(volume, kind, name string, items []corev1.KeyToPath) {
	paths := validation.NewSeen[string](len(items))
	for i := range items {
		if path := items[i].Path; paths.Again(path) {
			w.say("volume %q (%s %q): overlapping paths: %q with %q", volume, kind, name, path, path)
		}
	}
}
