package typed

import (
	"github.com/google/cel-go/checker"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"

	"mainstay.dev/mainstay/internal/cel/environment"
)

// The sizes of JSON values, in bytes. The sizes of strings include the quotes.
const (
	maxRequestSize  = int64(environment.MaxRequestSize)
	minStringSize   = 2 // ""
	minListSize     = 2 // [] or {}
	minDurationSize = 3 // "0"
	maxDurationSize = 32
	dateSize        = 12
	minDateTimeSize = 21
	maxDateTimeSize = 32 // with nanoseconds
	minBoolSize     = 4
	minNumberSize   = 1
)

// maxStringLength returns the maximum length of the strings that match a schema, in bytes.
func maxStringLength(s *apiextensions.JSONSchemaProps) int64 {
	if !s.XIntOrString {
		switch s.Format {
		case "duration":
			return maxDurationSize
		case "date":
			return dateSize
		case "date-time":
			return maxDateTimeSize
		case "byte":
			if s.MaxLength != nil {
				return max(0, *s.MaxLength)
			}
			return maxRequestSize - minStringSize
		}
	}
	if s.MaxLength != nil {
		return max(0, *s.MaxLength) * 4 // MaxLength counts code points of up to 4 bytes
	}
	if len(s.Enum) > 0 && !s.XIntOrString {
		longest := 0
		for _, value := range s.Enum {
			if text, ok := value.(string); ok {
				longest = max(longest, len(text))
			}
		}
		return int64(longest)
	}
	return maxRequestSize - minStringSize
}

// maxItems returns the maximum number of elements of a list in a request.
func maxItems(elem *Type) int64 { return (maxRequestSize - minListSize) / (elem.minSize + 1) }

// maxMembers returns the maximum number of members of an object in a request. In addition to its value, each
// member takes at least six bytes: a name of two characters, quotes, a colon, and a comma.
func maxMembers(elem *Type) int64 { return (maxRequestSize - minListSize) / (elem.minSize + 6) }

// Sizes implements checker.CostEstimator for expressions whose variables have the type Root. It estimates the
// sizes of values from the schema. It is immutable and safe for concurrent use.
type Sizes struct{ Root *Type }

var _ checker.CostEstimator = Sizes{}

// EstimateSize implements checker.CostEstimator.
func (s Sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	path := node.Path()
	if len(path) == 0 {
		return nil
	}
	t := s.Root
	for _, step := range path[1:] { // path[0] is the variable
		switch step {
		case "@items", "@values":
			t = t.elem
		case "@keys":
			if t.kind != kindMapping {
				return nil
			}
			// As in kube-apiserver, the size of a name is taken to be zero.
			return &checker.SizeEstimate{}
		default:
			t = t.fieldByCELName(step)
		}
		if t == nil {
			return nil
		}
	}
	return &checker.SizeEstimate{Max: uint64(t.maxElements)}
}

// EstimateCallCost implements checker.CostEstimator. It returns nil, which selects cel-go's
// estimate.
func (s Sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// fieldByCELName returns the type of the member with the given CEL name, or nil.
func (t *Type) fieldByCELName(name string) *Type {
	if plain, found := t.escaped[name]; found {
		return t.fields[plain]
	}
	if escaped, ok := Escape(name); ok && escaped == name {
		return t.fields[name]
	}
	return nil
}
