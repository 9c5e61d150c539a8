package library

import (
	"net/url"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// Formats returns the library of named string formats:
//
//	format.named(<string>) <optional<Format>>               none for an unknown name
//	format.dns1123Label() <Format>                          likewise for each other name
//	<Format>.validate(<string>) <optional<list<string>>>    the errors; none if the string is valid
//
// The names are dns1123Label, dns1123Subdomain, dns1035Label, qualifiedName, dns1123LabelPrefix,
// dns1123SubdomainPrefix, dns1035LabelPrefix, labelValue, uri, uuid, byte, date and datetime. A prefix may end
// with a hyphen, because a generated suffix is appended to it.
func Formats() cel.EnvOption {
	k := &kind[*format]{
		name:  "Format",
		typ:   cel.ObjectType(formatTypeName),
		equal: func(a, b *format) bool { return a.name == b.name },
	}
	var options []cel.EnvOption
	byName := map[string]ref.Val{}
	for _, f := range formats() {
		v := k.wrap(&f)
		byName[f.name] = v
		name := "format." + f.name
		options = append(options, cel.Function(name, cel.Overload(name, signature(), k.typ,
			cel.FunctionBinding(func(...ref.Val) ref.Val { return v }))))
	}
	named := func(name string) ref.Val {
		if f, ok := byName[name]; ok {
			return types.OptionalOf(f)
		}
		return types.OptionalNone
	}
	return cel.Lib(library{name: "kubernetes.format", options: append(options,
		cel.Function("format.named", cel.Overload("format-named", signature(cel.StringType), cel.OptionalType(k.typ), unary(named))),
		cel.Function("validate", cel.MemberOverload("format-validate", signature(k.typ, cel.StringType),
			cel.OptionalType(cel.ListType(cel.StringType)), binary(validate))),
	)})
}

// format is a named format.
type format struct {
	name        string
	validate    func(string) []string // returns the errors of a string
	regexLength uint64                // actual or assumed length of the regular expression; used for costs
}

// The assumed lengths, for costs, of formats that have no regular expression.
const (
	uriRegexLength    = 1120
	base64RegexLength = 84
)

func formats() []format {
	name := func(f apivalidation.ValidateNameFunc, prefix bool) func(string) []string {
		return func(s string) []string { return f(s, prefix) }
	}
	standard := func(name, fault string) func(string) []string {
		return func(s string) []string {
			if strfmt.Default.Validates(name, s) {
				return nil
			}
			return []string{fault}
		}
	}
	return []format{
		{"dns1123Label", name(apivalidation.NameIsDNSLabel, false), 30},
		{"dns1123Subdomain", name(apivalidation.NameIsDNSSubdomain, false), 60},
		{"dns1035Label", name(apivalidation.NameIsDNS1035Label, false), 30},
		{"qualifiedName", validation.IsQualifiedName, 60},
		{"dns1123LabelPrefix", name(apivalidation.NameIsDNSLabel, true), 30},
		{"dns1123SubdomainPrefix", name(apivalidation.NameIsDNSSubdomain, true), 60},
		{"dns1035LabelPrefix", name(apivalidation.NameIsDNS1035Label, true), 30},
		{"labelValue", validation.IsValidLabelValue, 40},
		{"uri", validateURI, uriRegexLength},
		{"uuid", standard("uuid", "does not match the UUID format"), uint64(len(strfmt.UUIDPattern))},
		{"byte", standard("byte", "invalid base64"), base64RegexLength},
		{"date", standard("date", "invalid date"), uint64(len(strfmt.DateTimePattern))},
		{"datetime", standard("datetime", "invalid datetime"), uint64(len(strfmt.DateTimePattern))},
	}
}

func validateURI(s string) []string {
	if _, err := url.ParseRequestURI(s); err != nil {
		return []string{err.Error()}
	}
	return nil
}

func validate(f *format, s string) ref.Val {
	faults := f.validate(s)
	if len(faults) == 0 {
		return types.OptionalNone
	}
	return types.OptionalOf(types.NewStringList(types.DefaultTypeAdapter, faults))
}

// maxFormatRegex is the assumed length of the regular expression for a format that is not known before
// evaluation.
const maxFormatRegex = 128

func validateCostModel() costModel {
	return costModel{
		estimate: func(c estimatedCall) *checker.CallEstimate {
			if c.target == nil || len(c.args) < 1 {
				return nil
			}
			return callEstimate(c.size(c.args[0]).MultiplyByCostFactor(traversal).MultiplyByCostFactor(maxFormatRegex * regexFactor))
		},
		actual: func(c executedCall) *uint64 {
			if len(c.args) < 2 {
				return nil
			}
			f, ok := argument[*format](c.args[0])
			if !ok {
				return nil
			}
			return actualCost(matchCost(size(c.args[1]), f.regexLength))
		},
	}
}
