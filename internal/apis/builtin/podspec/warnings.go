package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// TemplateWarnings returns the warnings for a new or changed template. path is the path of the template's
// spec.
func TemplateWarnings(path string, template, old *corev1.PodTemplateSpec) []string {
	if old != nil && validation.Equal(template, old) {
		return nil
	}
	w := newWarner(path, &template.Spec, &template.ObjectMeta)
	w.appArmor()
	return w.all()
}

// Warnings returns the warnings for a valid pod spec. path is the path of the spec.
func Warnings(path string, spec *corev1.PodSpec, meta *metav1.ObjectMeta) []string {
	return newWarner(path, spec, meta).all()
}

// maxWarnings is the maximum number of warnings for one pod spec.
const maxWarnings = 100

type warner struct {
	spec       *corev1.PodSpec
	path, meta string // paths of the spec and of the metadata
	notes      map[string]string
	warnings   []string
}

func newWarner(path string, spec *corev1.PodSpec, meta *metav1.ObjectMeta) *warner {
	return &warner{spec: spec, path: path, meta: strings.TrimSuffix(path, "spec") + "metadata.annotations", notes: meta.Annotations}
}

func (w *warner) all() []string {
	w.nodes()
	w.affinity()
	w.annotations()
	w.volumes()
	w.lists()
	w.fractions(w.path+".overhead", w.spec.Overhead)
	w.containers()
	w.ports()
	if seconds := w.spec.TerminationGracePeriodSeconds; seconds != nil && *seconds < 0 {
		w.addf("%s.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1", w.path)
	}
	w.addresses()
	return w.warnings
}

func (w *warner) addf(format string, args ...any) {
	if len(w.warnings) < maxWarnings {
		w.warnings = append(w.warnings, fmt.Sprintf(format, args...))
	}
}

func (w *warner) add(texts []string) {
	w.warnings = append(w.warnings, texts[:min(len(texts), maxWarnings-len(w.warnings))]...)
}

// nodes adds warnings for deprecated node labels, and for label values that no node can have.
func (w *warner) nodes() {
	for key := range w.spec.NodeSelector {
		if text := DeprecatedNodeLabel(key); text != "" {
			w.addf("%s.nodeSelector[%s]: %s", w.path, key, text)
		}
	}
	if a := nodeAffinity(w.spec); a != nil {
		path := w.path + ".affinity.nodeAffinity."
		if required := a.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			w.add(NodeSelectorWarnings(path+requiredTerms, required))
		}
		for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
			w.preference(fmt.Sprintf("%s%s[%d].preference", path, preferredTerms, i), &a.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference)
		}
	}
	for i := range w.spec.TopologySpreadConstraints {
		if key := w.spec.TopologySpreadConstraints[i].TopologyKey; DeprecatedNodeLabel(key) != "" {
			w.addf("%s.topologySpreadConstraints[%d].topologyKey: %s is %s", w.path, i, key, DeprecatedNodeLabel(key))
		}
	}
}

func nodeAffinity(spec *corev1.PodSpec) *corev1.NodeAffinity {
	if spec.Affinity == nil {
		return nil
	}
	return spec.Affinity.NodeAffinity
}

func (w *warner) preference(path string, term *corev1.NodeSelectorTerm) {
	for i := range term.MatchExpressions {
		r := &term.MatchExpressions[i]
		if text := DeprecatedNodeLabel(r.Key); text != "" {
			w.addf("%s.matchExpressions[%d].key: %s is %s", path, i, r.Key, text)
		}
		for j, value := range r.Values {
			for _, problem := range apivalidation.IsValidLabelValue(value) {
				w.addf("%s.matchExpressions[%d].values[%d]: %s is invalid, %s", path, i, j, value, problem)
			}
		}
	}
}

// affinity adds warnings for missing selectors, which match no object.
func (w *warner) affinity() {
	const nothing = ": a null labelSelector results in matching no pod"
	for i := range w.spec.TopologySpreadConstraints {
		if w.spec.TopologySpreadConstraints[i].LabelSelector == nil {
			w.addf("%s.topologySpreadConstraints[%d].labelSelector"+nothing, w.path, i)
		}
	}
	terms := func(kind string, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			if required[i].LabelSelector == nil {
				w.addf("%s.affinity.%s.%s[%d].labelSelector"+nothing, w.path, kind, requiredTerms, i)
			}
		}
		for i := range preferred {
			if preferred[i].PodAffinityTerm.LabelSelector == nil {
				w.addf("%s.affinity.%s.%s[%d].podAffinityTerm.labelSelector"+nothing, w.path, kind, preferredTerms, i)
			}
		}
	}
	a := w.spec.Affinity
	if a == nil {
		return
	}
	if a.PodAffinity != nil {
		terms("podAffinity", a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a.PodAntiAffinity != nil {
		terms("podAntiAffinity", a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

// annotations adds warnings for annotations that have no effect.
func (w *warner) annotations() {
	for _, annotation := range [...]struct{ key, text string }{
		{"scheduler.alpha.kubernetes.io/critical-pod", `non-functional in v1.16+; use the "priorityClassName" field instead`},
		{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
		{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	} {
		if _, ok := w.notes[annotation.key]; ok {
			w.addf("%s[%s]: %s", w.meta, annotation.key, annotation.text)
		}
	}
	if sc := w.spec.SecurityContext; sc == nil || sc.SeccompProfile == nil {
		w.seccomp(seccompPod)
	}
}

func (w *warner) seccomp(key string) {
	if _, ok := w.notes[key]; ok {
		w.addf(`%s[%s]: non-functional in v1.27+; use the "seccompProfile" field instead`, w.meta, key)
	}
}

// appArmor adds warnings for AppArmor annotations of templates. For pods, syncAppArmor adds these warnings
// when it copies the annotations.
func (w *warner) appArmor() {
	if sc := w.spec.SecurityContext; len(w.notes) == 0 || sc != nil && sc.AppArmorProfile != nil {
		return
	}
	eachContainer(w.spec, func(c *corev1.Container) {
		if _, ok := w.notes[AppArmorContainer+c.Name]; ok && (c.SecurityContext == nil || c.SecurityContext.AppArmorProfile == nil) {
			w.addf(`%s[%s]: deprecated since v1.30; use the "appArmorProfile" field instead`, w.meta, AppArmorContainer+c.Name)
		}
	})
}

func (w *warner) lists() {
	ips := validation.NewDuplicates[string](len(w.spec.HostAliases))
	for i := range w.spec.HostAliases {
		if ip := w.spec.HostAliases[i].IP; ips.IsDuplicate(ip) {
			w.addf("%s.hostAliases[%d].ip: duplicate ip %q", w.path, i, ip)
		}
	}
	secrets := validation.NewDuplicates[string](len(w.spec.ImagePullSecrets))
	for i := range w.spec.ImagePullSecrets {
		name := w.spec.ImagePullSecrets[i].Name
		if secrets.IsDuplicate(name) {
			w.addf("%s.imagePullSecrets[%d].name: duplicate name %q", w.path, i, name)
		}
		if name == "" {
			w.addf("%s.imagePullSecrets[%d].name: invalid empty name %q", w.path, i, name)
		}
	}
}

// addresses adds warnings for addresses that different programs parse differently.
func (w *warner) addresses() {
	path := field.NewPath(w.path)
	if config := w.spec.DNSConfig; config != nil {
		for i, server := range config.Nameservers {
			w.add(apivalidation.GetWarningsForIP(path.Child("dnsConfig", "nameservers").Index(i), server))
		}
	}
	for i := range w.spec.HostAliases {
		w.add(apivalidation.GetWarningsForIP(path.Child("hostAliases").Index(i).Child("ip"), w.spec.HostAliases[i].IP))
	}
}

// eachContainer calls a function for each container, with the path of the container.
func (w *warner) eachContainer(call func(path string, c *corev1.Container)) {
	for _, list := range [...]struct {
		name       string
		containers []corev1.Container
	}{{"initContainers", w.spec.InitContainers}, {"containers", w.spec.Containers}} {
		for i := range list.containers {
			call(fmt.Sprintf("%s.%s[%d]", w.path, list.name, i), &list.containers[i])
		}
	}
	for i := range w.spec.EphemeralContainers {
		call(fmt.Sprintf("%s.ephemeralContainers[%d]", w.path, i), (*corev1.Container)(&w.spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
}

func (w *warner) containers() {
	w.eachContainer(func(path string, c *corev1.Container) {
		if len(w.notes) > 0 && (c.SecurityContext == nil || c.SecurityContext.SeccompProfile == nil) {
			w.seccomp(seccompContainer + c.Name)
		}
		w.fractions(path+".resources.limits", c.Resources.Limits)
		w.fractions(path+".resources.requests", c.Resources.Requests)
		names := validation.NewDuplicates[string](len(c.Env))
		for i := range c.Env {
			if name := c.Env[i].Name; names.IsDuplicate(name) && hides(&c.Env[i]) {
				w.addf("%s.env[%d]: hides previous definition of %q, which may be dropped when using apply", path, i, name)
			}
		}
	})
}

// hides reports whether the value of an environment variable replaces the value of an earlier variable with
// the same name, instead of extending it.
func hides(env *corev1.EnvVar) bool {
	before := "$(" + env.Name + ")"
	return env.ValueFrom != nil || env.Value == before || !strings.Contains(env.Value, before)
}

// fractions adds warnings for quantities that are not whole bytes.
func (w *warner) fractions(path string, resources corev1.ResourceList) {
	for _, name := range [...]corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if quantity, ok := resources[name]; ok && quantity.MilliValue()%1000 != 0 {
			w.addf("%s[%s]: fractional byte value %q is invalid, must be an integer", path, name, quantity.String())
		}
	}
}

// placedPort is a port together with its field path.
type placedPort struct {
	*corev1.ContainerPort
	path string
}

// ports adds warnings for duplicate ports, which are valid unless they have host ports. It compares a port
// with at most maxWarnings earlier ports that have the same number and protocol.
func (w *warner) ports() {
	type key struct {
		port     int32
		protocol corev1.Protocol
	}
	alike, names := map[key][]placedPort{}, map[string]string{}
	w.eachContainer(func(path string, c *corev1.Container) {
		for i := range c.Ports {
			port := placedPort{&c.Ports[i], fmt.Sprintf("%s.ports[%d]", path, i)}
			if port.HostIP != "" && port.HostPort == 0 {
				w.addf("%s: hostIP set without hostPort: %+v", port.path, *port.ContainerPort)
			}
			k := key{port.ContainerPort.ContainerPort, port.Protocol}
			for _, other := range alike[k] {
				w.twoPorts(port, other)
			}
			if len(alike[k]) < maxWarnings {
				alike[k] = append(alike[k], port)
			}
		}
	})
	w.eachContainer(func(path string, c *corev1.Container) {
		for i := range c.Ports {
			if name := c.Ports[i].Name; name == "" {
				continue
			} else if other, again := names[name]; again {
				w.addf("%s.ports[%d]: duplicate port name %q with %s, services and probes that select ports by name will use %s", path, i, name, other, other)
			} else {
				names[name] = fmt.Sprintf("%s.ports[%d]", path, i)
			}
		}
	})
}

func (w *warner) twoPorts(port, other placedPort) {
	switch {
	case port.HostIP == other.HostIP && port.HostPort == other.HostPort:
		w.addf("%s: duplicate port definition with %s", port.path, other.path)
	case port.HostPort == 0 || other.HostPort == 0:
		w.addf("%s: overlapping port definition with %s", port.path, other.path)
	case port.HostPort == other.HostPort && (port.HostIP == "") != (other.HostIP == ""):
		w.addf("%s: dangerously ambiguous port definition with %s", port.path, other.path)
	}
}
