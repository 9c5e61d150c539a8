package library

import (
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// JSONPatch returns the library for JSON patches. All does not include this library, because only mutations may
// use it.
//
//	jsonpatch.escapeKey(<string>) <string>    a key as a path segment (RFC 6901)
func JSONPatch() cel.EnvOption {
	escape := func(key string) ref.Val {
		return types.String(strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1"))
	}
	return cel.Lib(library{name: "kubernetes.jsonpatch", options: []cel.EnvOption{
		cel.Function("jsonpatch.escapeKey",
			cel.Overload("string_jsonpatch_escapeKey_string", signature(cel.StringType), cel.StringType, unary(escape))),
	}})
}
