package library

import (
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// JSONPatch is what the paths of JSON patches are made with. It is no part of All:
// only mutations have it.
//
//	jsonpatch.escapeKey(<string>) <string>    a key as a step of a path (RFC 6901)
func JSONPatch() cel.EnvOption {
	escape := func(key string) ref.Val {
		return types.String(strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1"))
	}
	return cel.Lib(library{name: "kubernetes.jsonpatch", options: []cel.EnvOption{
		cel.Function("jsonpatch.escapeKey",
			cel.Overload("string_jsonpatch_escapeKey_string", signature(cel.StringType), cel.StringType, unary(escape))),
	}})
}
