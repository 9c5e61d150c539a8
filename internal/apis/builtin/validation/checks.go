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

// InvalidFor reports each problem that a format's check found with a value.
func (f Field) InvalidFor(value any, problems []string) {
	for _, problem := range problems {
		f.Invalid(value, problem)
	}
}

// OneOf requires one of the values of an enumeration. A fault lists them in the
// order given.
func OneOf[S ~string](f Field, value S, supported ...S) {
	if !slices.Contains(supported, value) {
		NotSupported(f, value, supported...)
	}
}

// NotSupported reports a value that is not in an enumeration.
func NotSupported[S ~string](f Field, value any, supported ...S) {
	f.Add(field.NotSupported(f.Path(), value, slices.Clone(supported)))
}

// Immutable requires an unchanged value. It is for updates: old is the value of the old object.
func Immutable[T any](f Field, value, old T) {
	if Changed(value, old) {
		f.Invalid(value, apivalidation.FieldImmutableErrorMsg)
	}
}

// ImmutableValue is Immutable for comparable types. It allocates nothing.
func ImmutableValue[T comparable](f Field, value, old T) {
	if value != old {
		f.Invalid(value, apivalidation.FieldImmutableErrorMsg)
	}
}

// NonNegative requires a number of zero or more.
func (f Field) NonNegative(n int64) {
	if n < 0 {
		f.Invalid(n, apivalidation.IsNegativeErrorMsg)
	}
}

// NumberOrPercent requires a number of zero or more, or a percentage.
func (f Field) NumberOrPercent(value intstr.IntOrString) {
	if value.Type == intstr.Int {
		f.NonNegative(int64(value.IntVal))
		return
	}
	if problems := validation.IsValidPercent(value.StrVal); len(problems) > 0 {
		f.InvalidFor(value.StrVal, problems)
	}
}

// AtMost100Percent requires that a percentage is no more than everything. Numbers are in
// order, as it is not known of how many.
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

// PortNumberOrName requires the number of a port, or its name (RFC 6335).
func (f Field) PortNumberOrName(port intstr.IntOrString) {
	if port.Type == intstr.Int {
		if problems := validation.IsValidPortNum(port.IntValue()); len(problems) > 0 {
			f.InvalidFor(port.IntValue(), problems)
		}
		return
	}
	f.PortName(port.StrVal)
}

// PortName requires the name of a port (RFC 6335).
func (f Field) PortName(name string) {
	if problems := validation.IsValidPortName(name); len(problems) > 0 {
		f.InvalidFor(name, problems)
	}
}

// ConfigMapKey requires a key that a ConfigMap or a Secret can have.
func (f Field) ConfigMapKey(key string) {
	if !names.IsLabelValue(key) { // most are, and there may be a hundred thousand
		f.InvalidFor(key, validation.IsConfigMapKey(key))
	}
}

// Between requires a number in a range, its ends included.
func (f Field) Between(n, least, most int64) {
	if n < least || n > most {
		f.Invalid(n, validation.InclusiveRangeError(int(least), int(most)))
	}
}

// DNSLabel requires a DNS label (RFC 1123), as names of ports and containers.
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

// WildcardSubdomain requires a DNS subdomain after a wildcard for its first label, "*.".
func (f Field) WildcardSubdomain(value string) {
	parent, ok := strings.CutPrefix(value, "*.")
	if !ok || !names.IsSubdomain(parent) || len(value) > validation.DNS1123SubdomainMaxLength {
		f.InvalidFor(value, validation.IsWildcardDNS1123Subdomain(value))
	}
}

// PathSegment requires a valid path segment of the API, in addition to the rules of a kind's names.
func (f Field) PathSegment(value string) {
	if problems := content.IsPathSegmentName(value); len(problems) > 0 {
		f.InvalidFor(value, problems)
	}
}

// RequiredPathSegment is PathSegment for a name that must be there.
func (f Field) RequiredPathSegment(value string) {
	if value == "" {
		f.Required("")
	} else {
		f.PathSegment(value)
	}
}

// QualifiedName requires a name that may have a prefix, as the keys of labels.
func (f Field) QualifiedName(value string) {
	if !names.IsQualified(value) {
		f.InvalidFor(value, validation.IsQualifiedName(value))
	}
}

// LabelValue requires a value that a label can have.
func (f Field) LabelValue(value string) {
	if value != "" && !names.IsLabelValue(value) {
		f.InvalidFor(value, validation.IsValidLabelValue(value))
	}
}

// EnvName requires a name that a variable of an environment can have: any
// printable ASCII text without an equals sign.
func (f Field) EnvName(value string) {
	if problems := validation.IsRelaxedEnvVarName(value); len(problems) > 0 {
		f.InvalidFor(value, problems)
	}
}

// Labels validates keys and values of labels. Errors are reported for the whole map.
func (f Field) Labels(labels map[string]string) {
	for key, value := range labels {
		if !names.IsQualified(key) || value != "" && !names.IsLabelValue(value) {
			f.Add(metav1validation.ValidateLabels(labels, f.Path())...)
			return
		}
	}
}

// Annotations requires keys of annotations, and that all of them together are not
// too long.
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

// LabelSelector requires a selector of labels that can be evaluated. A nil one is
// in order.
func (f Field) LabelSelector(selector *metav1.LabelSelector) {
	f.labelSelector(selector, metav1validation.LabelSelectorValidationOptions{})
}

// LooseLabelSelector is LabelSelector with any values of expressions. It is for updates of objects
// whose selector is already invalid.
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

// IP requires an IP address. With StrictIPCIDRValidation (KEP-4858), ambiguous forms, such as
// leading zeros, are rejected, except old values.
func (f Field) IP(value string, old ...string) {
	if addr, err := netip.ParseAddr(value); err == nil && addr.Zone() == "" && !addr.Is4In6() {
		return
	}
	f.Add(validation.IsValidIPForLegacyField(f.Path(), value, f.Enabled(feature.StrictIPCIDRValidation), slices.Clone(old))...)
}

// CIDR is IP for an address with the length of its prefix.
func (f Field) CIDR(value string, old ...string) {
	if prefix, err := netip.ParsePrefix(value); err == nil && prefix == prefix.Masked() && !prefix.Addr().Is4In6() {
		return
	}
	f.Add(validation.IsValidCIDRForLegacyField(f.Path(), value, f.Enabled(feature.StrictIPCIDRValidation), slices.Clone(old))...)
}

// NonSpecialIP requires an address by which other machines can be reached: neither one
// that means every machine its own self, nor one that ends with the link.
func (f Field) NonSpecialIP(value string) {
	addr, err := netip.ParseAddr(value)
	if err != nil { // leading zeros are IP's to judge
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
