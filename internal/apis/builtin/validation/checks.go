package validation

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/rest/names"
)

// InvalidFor reports an error for each problem that a format check has found in value.
func (f Field) InvalidFor(value any, problems []string) {
	for _, problem := range problems {
		f.Invalid(value, problem)
	}
}

// OneOf requires that a value is one of the supported values of an enumeration. The error lists them in the
// given order.
func OneOf[S ~string](f Field, value S, supported ...S) {
	if !slices.Contains(supported, value) {
		NotSupported(f, value, supported...)
	}
}

// NotSupported reports that a value is not one of the supported values.
func NotSupported[S ~string](f Field, value any, supported ...S) {
	f.Add(field.NotSupported(f.Path(), value, slices.Clone(supported)))
}

// Immutable requires that a value equals old, its value in the old object. Call it only on update.
func Immutable[T any](f Field, value, old T) {
	if Changed(value, old) {
		f.Invalid(value, apivalidation.FieldImmutableErrorMsg)
	}
}

// ImmutableValue is like Immutable, but for comparable types. It does not allocate memory.
func ImmutableValue[T comparable](f Field, value, old T) {
	if value != old {
		f.Invalid(value, apivalidation.FieldImmutableErrorMsg)
	}
}

// NonNegative requires that a number is not negative.
func (f Field) NonNegative(n int64) {
	if n < 0 {
		f.Invalid(n, apivalidation.IsNegativeErrorMsg)
	}
}

// NumberOrPercent requires a non-negative number or a percentage.
func (f Field) NumberOrPercent(value intstr.IntOrString) {
	if value.Type == intstr.Int {
		f.NonNegative(int64(value.IntVal))
		return
	}
	if problems := validation.IsValidPercent(value.StrVal); len(problems) > 0 {
		f.InvalidFor(value.StrVal, problems)
	}
}

// AtMost100Percent rejects percentages above 100 %. It accepts all integers, because the total to which they
// relate is unknown.
func (f Field) AtMost100Percent(value intstr.IntOrString) {
	if value.Type == intstr.Int || len(validation.IsValidPercent(value.StrVal)) > 0 {
		return
	}
	if percent, err := strconv.Atoi(strings.TrimSuffix(value.StrVal, "%")); err != nil || percent > 100 {
		f.Invalid(value, "must not be greater than 100%")
	}
}

// PortNumber requires a number between 1 and 65535.
func (f Field) PortNumber(n int32) {
	if n < 1 || n > 65535 {
		f.Invalid(n, validation.InclusiveRangeError(1, 65535))
	}
}

// PortNumberOrName requires a port number or a port name (RFC 6335).
func (f Field) PortNumberOrName(port intstr.IntOrString) {
	if port.Type == intstr.Int {
		if problems := validation.IsValidPortNum(port.IntValue()); len(problems) > 0 {
			f.InvalidFor(port.IntValue(), problems)
		}
		return
	}
	f.PortName(port.StrVal)
}

// PortName requires a port name (RFC 6335).
func (f Field) PortName(name string) {
	if problems := validation.IsValidPortName(name); len(problems) > 0 {
		f.InvalidFor(name, problems)
	}
}

// ConfigMapKey requires a valid key for the data of a ConfigMap or Secret.
func (f Field) ConfigMapKey(key string) {
	if !names.IsLabelValue(key) { // fast path: most keys are label values, and an object can have 100,000 keys
		f.InvalidFor(key, validation.IsConfigMapKey(key))
	}
}

// Between requires a number in an inclusive range.
func (f Field) Between(n, least, most int64) {
	if n < least || n > most {
		f.Invalid(n, validation.InclusiveRangeError(int(least), int(most)))
	}
}

// DNSLabel requires a DNS label (RFC 1123), such as the name of a port or container.
func (f Field) DNSLabel(value string) {
	if !names.IsLabel(value) {
		f.InvalidFor(value, validation.IsDNS1123Label(value))
	}
}

// DNSSubdomain requires a DNS subdomain (RFC 1123).
func (f Field) DNSSubdomain(value string) {
	if !names.IsSubdomain(value) {
		f.InvalidFor(value, validation.IsDNS1123Subdomain(value))
	}
}

// WildcardSubdomain requires a DNS subdomain (RFC 1123) whose first label is the wildcard "*".
func (f Field) WildcardSubdomain(value string) {
	parent, ok := strings.CutPrefix(value, "*.")
	if !ok || !names.IsSubdomain(parent) || len(value) > validation.DNS1123SubdomainMaxLength {
		f.InvalidFor(value, validation.IsWildcardDNS1123Subdomain(value))
	}
}

// PathSegment requires a string that is valid as a segment of an API path. Names must satisfy this in addition
// to the rules of their kind.
func (f Field) PathSegment(value string) {
	if problems := content.IsPathSegmentName(value); len(problems) > 0 {
		f.InvalidFor(value, problems)
	}
}

// RequiredPathSegment is like PathSegment, but also rejects an empty value.
func (f Field) RequiredPathSegment(value string) {
	if value == "" {
		f.Required("")
	} else {
		f.PathSegment(value)
	}
}

// QualifiedName requires a name with an optional prefix, such as a label key.
func (f Field) QualifiedName(value string) {
	if !names.IsQualified(value) {
		f.InvalidFor(value, validation.IsQualifiedName(value))
	}
}

// LabelValue requires a valid label value.
func (f Field) LabelValue(value string) {
	if value != "" && !names.IsLabelValue(value) {
		f.InvalidFor(value, validation.IsValidLabelValue(value))
	}
}

// EnvName requires a valid name for an environment variable, which consists of printable ASCII characters
// except the equals sign.
func (f Field) EnvName(value string) {
	if problems := validation.IsRelaxedEnvVarName(value); len(problems) > 0 {
		f.InvalidFor(value, problems)
	}
}

// Labels validates the keys and values of labels. Errors are reported for the whole map.
func (f Field) Labels(labels map[string]string) {
	for key, value := range labels {
		if !names.IsQualified(key) || value != "" && !names.IsLabelValue(value) {
			f.Add(metav1validation.ValidateLabels(labels, f.Path())...)
			return
		}
	}
}

// Annotations validates the keys and the total size of annotations.
func (f Field) Annotations(annotations map[string]string) {
	size := 0
	for key, value := range annotations {
		size += len(key) + len(value)
		if !names.IsQualified(key) || size > apivalidation.TotalAnnotationSizeLimitB {
			f.Add(apivalidation.ValidateAnnotations(annotations, f.Path())...)
			return
		}
	}
}

// LabelSelector requires a valid label selector. A nil selector is valid.
func (f Field) LabelSelector(selector *metav1.LabelSelector) {
	f.labelSelector(selector, metav1validation.LabelSelectorValidationOptions{})
}

// LooseLabelSelector is like LabelSelector, but does not validate label values. It is used for updates of
// objects whose stored selector is already invalid.
func (f Field) LooseLabelSelector(selector *metav1.LabelSelector) {
	f.labelSelector(selector, metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: true})
}

func (f Field) labelSelector(selector *metav1.LabelSelector, options metav1validation.LabelSelectorValidationOptions) {
	if selector == nil {
		return
	}
	f.Child("matchLabels").Labels(selector.MatchLabels)
	for i := range selector.MatchExpressions {
		if !plainRequirement(&selector.MatchExpressions[i]) {
			at := f.Child("matchExpressions").Index(i)
			at.Add(metav1validation.ValidateLabelSelectorRequirement(selector.MatchExpressions[i], options, at.Path())...)
		}
	}
}

func plainRequirement(r *metav1.LabelSelectorRequirement) bool {
	switch r.Operator {
	case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
		if len(r.Values) == 0 {
			return false
		}
	case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			return false
		}
	default:
		return false
	}
	for _, value := range r.Values {
		if value != "" && !names.IsLabelValue(value) {
			return false
		}
	}
	return names.IsQualified(r.Key)
}

// IP requires an IP address. If the feature gate StrictIPCIDRValidation (KEP-4858) is enabled, it rejects
// ambiguous forms, such as leading zeros, unless old contains the value.
func (f Field) IP(value string, old ...string) {
	if addr, err := netip.ParseAddr(value); err == nil && addr.Zone() == "" && !addr.Is4In6() {
		return
	}
	f.addUnlessOld(validation.IsValidIPForLegacyField(f.Path(), value, f.Enabled(feature.StrictIPCIDRValidation), nil), value, old)
}

// CIDR is like IP, but for CIDRs.
func (f Field) CIDR(value string, old ...string) {
	if prefix, err := netip.ParsePrefix(value); err == nil && prefix == prefix.Masked() && !prefix.Addr().Is4In6() {
		return
	}
	f.addUnlessOld(validation.IsValidCIDRForLegacyField(f.Path(), value, f.Enabled(feature.StrictIPCIDRValidation), nil), value, old)
}

// addUnlessOld reports the errors of a value unless old contains the value. After maxErrors errors, it no
// longer searches old, because the object is invalid in any case and a long list can contain many invalid
// values.
func (f Field) addUnlessOld(errs field.ErrorList, value string, old []string) {
	if len(errs) > 0 && (f.ErrorCount() >= maxErrors || !slices.Contains(old, value)) {
		f.Add(errs...)
	}
}

// NonSpecialIP requires an address that is neither unspecified, loopback nor link-local, so that other
// machines might be able to reach it.
func (f Field) NonSpecialIP(value string) {
	addr, err := netip.ParseAddr(value)
	if err != nil { // leading zeros are accepted here, because IP validates them
		if len(validation.IsValidIPForLegacyField(f.Path(), value, false, nil)) > 0 {
			f.Invalid(value, "must be a valid IP address")
		}
		return
	}
	switch addr = addr.Unmap(); {
	case addr.IsUnspecified():
		f.Invalid(value, "may not be unspecified ("+value+")")
	case addr.IsLoopback():
		f.Invalid(value, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
	case addr.IsLinkLocalUnicast():
		f.Invalid(value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
	case addr.IsLinkLocalMulticast():
		f.Invalid(value, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
	}
}
