package core

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	declared "mainstay.dev/mainstay/internal/apis/builtin/declarative/core"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateNode(f validation.Field, node, old *corev1.Node) {
	var before *corev1.NodeSpec
	var cidrs []string
	if old != nil {
		before, cidrs = &old.Spec, old.Spec.PodCIDRs
		validateNodeUpdate(f.Child("spec"), &node.Spec, before)
	}
	validatePodCIDRs(f.Child("spec").Child("podCIDRs"), node.Spec.PodCIDRs, cidrs)
	if node.Spec.PodPreemptionPolicy != nil { // only this field has declared rules that are enforced
		validation.ValidateDeclared(f.Child("spec"), declared.Validate_NodeSpec, &node.Spec, before, "")
	}
	validateNodeRest(f, node)
}

func validateNodeStatus(f validation.Field, node, _ *corev1.Node) {
	validateNodeAddresses(f.Child("status").Child("addresses"), node.Status.Addresses) // the addresses of a new node may contain duplicates
	validateNodeRest(f, node)
}

// validateNodeRest contains the rules that apply to all writes of a node.
func validateNodeRest(f validation.Field, node *corev1.Node) {
	meta, status := f.Child("metadata"), f.Child("status")
	validateNodeAnnotations(meta.Child("annotations"), node.Annotations)
	validateTaints(meta.Child("taints"), node.Spec.Taints) // as in kube-apiserver, the path is below metadata
	validateNodeResources(status.Child("capacity"), node.Status.Capacity)
	validateNodeResources(status.Child("allocatable"), node.Status.Allocatable)
	validateDeclaredFeatures(status.Child("declaredFeatures"), node.Status.DeclaredFeatures)
	validateConfigSource(f.Child("spec").Child("configSource"), node.Spec.ConfigSource, false)
	if config := node.Status.Config; config != nil {
		at := status.Child("config")
		validateConfigSource(at.Child("assigned"), config.Assigned, true)
		validateConfigSource(at.Child("active"), config.Active, true)
		validateConfigSource(at.Child("lastKnownGood"), config.LastKnownGood, true)
	}
}

// validateNodeUpdate rejects changes of fields that controllers set only once and that pods and volumes depend
// on.
func validateNodeUpdate(f validation.Field, spec, old *corev1.NodeSpec) {
	if len(old.PodCIDRs) > 0 && !slices.Equal(spec.PodCIDRs, old.PodCIDRs) {
		f.Child("podCIDRs").Forbidden(`node updates may not change podCIDR except from "" to valid`)
	}
	if old.ProviderID != "" && spec.ProviderID != old.ProviderID {
		f.Child("providerID").Forbidden(`node updates may not change providerID except from "" to valid`)
	}
	if spec.DoNotUseExternalID != old.DoNotUseExternalID {
		f.Child("externalID").Forbidden("may not be updated")
	}
}

// validatePodCIDRs validates the pod CIDRs of a node. A node can have at most one CIDR for each IP family.
func validatePodCIDRs(f validation.Field, cidrs, old []string) {
	for i, cidr := range cidrs {
		f.Index(i).CIDR(cidr, old...)
	}
	if len(cidrs) < 2 || slices.Equal(cidrs, old) {
		return
	}
	ipv4, ipv6, invalid := false, false, false
	for i, cidr := range cidrs {
		prefix, err := netip.ParsePrefix(cidr)
		if err == nil {
			ipv4, ipv6 = ipv4 || !prefix.Addr().Is6(), ipv6 || prefix.Addr().Is6()
		} else if !invalid { // as in kube-apiserver, only the first error is reported
			invalid = true
			f.Add(field.InternalError(f.Path(), fmt.Errorf(
				"invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[%d]: <nil> (invalid CIDR address: %s)", i, cidr)))
		}
	}
	if invalid || !ipv4 || !ipv6 || len(cidrs) > 2 {
		f.Invalid(cidrs, "may specify no more than one CIDR for each IP family")
	}
}

// taintKey identifies a taint of a node.
type taintKey struct {
	key    string
	effect corev1.TaintEffect
}

func validateTaints(f validation.Field, taints []corev1.Taint) {
	seen := validation.NewDuplicates[taintKey](len(taints))
	for i := range taints {
		taint, at := &taints[i], f.Index(i)
		at.Child("key").QualifiedName(taint.Key)
		if problems := apivalidation.IsValidLabelValue(taint.Value); len(problems) > 0 {
			at.Child("value").Invalid(taint.Value, strings.Join(problems, ";"))
		}
		if taint.Effect == "" {
			at.Child("effect").Required("")
		} else {
			validation.OneOf(at.Child("effect"), taint.Effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
		}
		if seen.IsDuplicate(taintKey{taint.Key, taint.Effect}) {
			fault := field.Duplicate(at.Path(), *taint)
			fault.Detail = "taints must be unique by key and effect pair"
			at.Add(fault)
		}
	}
}

// validateNodeAnnotations validates annotations that have been superseded by fields.
func validateNodeAnnotations(f validation.Field, annotations map[string]string) {
	if text := annotations[corev1.TaintsAnnotationKey]; text != "" {
		var taints []corev1.Taint
		if err := json.Unmarshal([]byte(text), &taints); err != nil {
			f.Invalid(corev1.TaintsAnnotationKey, err.Error())
		} else {
			validateTaints(f.Child(corev1.TaintsAnnotationKey), taints)
		}
	}
	text := annotations[corev1.PreferAvoidPodsAnnotationKey]
	if text == "" {
		return
	}
	var avoid corev1.AvoidPods
	if err := json.Unmarshal([]byte(text), &avoid); err != nil {
		f.Child("AvoidPods").Invalid(corev1.PreferAvoidPodsAnnotationKey, err.Error())
	}
	for i := range avoid.PreferAvoidPods {
		signature := f.Child(corev1.PreferAvoidPodsAnnotationKey).Index(i).Child("PodSignature")
		if controller := avoid.PreferAvoidPods[i].PodSignature.PodController; controller == nil {
			signature.Required("")
		} else if controller.Controller == nil || !*controller.Controller {
			signature.Child("PodController").Invalid(false, "must point to a controller")
		}
	}
}

func validateNodeResources(f validation.Field, resources corev1.ResourceList) {
	for name, quantity := range resources {
		podspec.ValidateQuantity(f.Child(string(name)), name, quantity)
	}
}

func validateNodeAddresses(f validation.Field, addresses []corev1.NodeAddress) {
	seen := validation.NewDuplicates[corev1.NodeAddress](len(addresses))
	for i := range addresses {
		if seen.IsDuplicate(addresses[i]) {
			f.Index(i).Duplicate(addresses[i])
		}
	}
}

// validateDeclaredFeatures requires that the features are valid, sorted and unique.
func validateDeclaredFeatures(f validation.Field, features []string) {
	for i, feature := range features {
		at := f.Index(i)
		switch {
		case len(feature) > apivalidation.DNS1123SubdomainMaxLength:
			at.Invalid(feature, fmt.Sprintf("invalid feature name %q: must be no more than %d characters", feature, apivalidation.DNS1123SubdomainMaxLength))
		case !isFeatureName(feature):
			at.Invalid(feature, fmt.Sprintf("invalid feature name %q: must start with an UpperCamelCase segment, with subsequent segments separated by '/' "+
				"(e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes", feature))
		}
		switch {
		case i == 0 || features[i-1] < feature:
		case features[i-1] == feature:
			at.Duplicate(feature)
		default:
			at.Invalid(feature, "list must be sorted alphabetically")
		}
	}
}

// isFeatureName reports whether text is a feature name: one or more segments of letters and digits, separated
// by slashes. Each segment starts with a letter, and the first segment starts with an upper-case letter.
func isFeatureName(text string) bool {
	first := true // the next byte is the first byte of a segment
	for i := range len(text) {
		c := text[i]
		upper, lower := 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z'
		switch {
		case upper, lower && i > 0, '0' <= c && c <= '9' && !first:
			first = false
		case c == '/' && !first:
			first = true
		default:
			return false
		}
	}
	return !first
}

// validateConfigSource validates a source of dynamic kubelet configuration, a feature that has been removed.
// used is true for the status, where the source must have a UID and a resource version; in the spec, it must
// have neither.
func validateConfigSource(f validation.Field, source *corev1.NodeConfigSource, used bool) {
	if source == nil {
		return
	}
	ref, at := source.ConfigMap, f.Child("configMap")
	if ref == nil {
		f.Invalid(source, "exactly one reference subfield must be non-nil")
		return
	}
	for _, field := range [...]struct{ name, value string }{{"uid", string(ref.UID)}, {"resourceVersion", ref.ResourceVersion}} {
		if used && field.value == "" {
			at.Child(field.name).Required(field.name + " must be set in status")
		} else if !used && field.value != "" {
			at.Child(field.name).Forbidden(field.name + " must not be set in spec")
		}
	}
	if ref.Namespace == "" {
		at.Child("namespace").Required("namespace must be set")
	} else {
		at.Child("namespace").DNSLabel(ref.Namespace)
	}
	if ref.Name == "" {
		at.Child("name").Required("name must be set")
	} else {
		at.Child("name").DNSSubdomain(ref.Name)
	}
	if ref.KubeletConfigKey == "" {
		at.Child("kubeletConfigKey").Required("kubeletConfigKey must be set")
	} else {
		at.Child("kubeletConfigKey").ConfigMapKey(ref.KubeletConfigKey)
	}
}
