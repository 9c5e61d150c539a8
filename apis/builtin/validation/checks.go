package validation

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/feature"
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
		f.Add(field.NotSupported(f.Path(), value, slices.Clone(supported)))
	}
}

// Immutable requires that a value is what it was. It is for updates: old is that
// of the object before.
func Immutable[T any](f Field, value, old T) {
	if !equality.Semantic.DeepEqual(value, old) {
		f.Invalid(value, apivalidation.FieldImmutableErrorMsg)
	}
}

// Changed reports whether a value differs from what it was. Rules that came
// later than objects they refuse are for changed values only, so that such
// objects stay editable (ratcheting).
func Changed[T any](value, old T) bool { return !equality.Semantic.DeepEqual(value, old) }

// NonNegative requires a number of zero or more.
func (f Field) NonNegative(n int64) {
	if n < 0 {
		f.Invalid(n, apivalidation.IsNegativeErrorMsg)
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
	f.InvalidFor(port.StrVal, validation.IsValidPortName(port.StrVal))
}

// DNSLabel requires a DNS label (RFC 1123), as names of ports and containers.
func (f Field) DNSLabel(value string) {
	if !plainLabel(value) {
		f.InvalidFor(value, validation.IsDNS1123Label(value))
	}
}

// plainLabel reports whether a text is a DNS label, for sure: most are, and to
// run the regular expression of the words on each takes a hundred times as long.
func plainLabel(s string) bool {
	if s == "" || len(s) > validation.DNS1123LabelMaxLength || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// DNSSubdomain requires a DNS subdomain (RFC 1123).
func (f Field) DNSSubdomain(value string) {
	if !plainLabel(value) {
		f.InvalidFor(value, validation.IsDNS1123Subdomain(value))
	}
}

// QualifiedName requires a name that may have a prefix, as the keys of labels.
func (f Field) QualifiedName(value string) {
	if !plainLabel(value) {
		f.InvalidFor(value, validation.IsQualifiedName(value))
	}
}

// Labels requires keys and values of labels. Faults are those of the whole map.
func (f Field) Labels(labels map[string]string) {
	for key, value := range labels {
		if !plainLabel(key) || value != "" && !plainLabel(value) {
			f.Add(metav1validation.ValidateLabels(labels, f.Path())...)
			return
		}
	}
}

// IP requires an IP address. Addresses in forms that are read in more than one
// way, such as with leading zeros, are refused where StrictIPCIDRValidation is on
// (KEP-4858), but for those that stood there before.
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
