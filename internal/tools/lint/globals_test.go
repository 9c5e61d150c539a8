package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"testing"
)

// allowedGlobals contains the package-level variables of mutable types that are allowed because they hold no
// state. The values are the reasons.
func allowedGlobals() map[string]string {
	return map[string]string{
		"codec/jsonplan.plans":            "a cache of values that depend only on types; each value is computed once and never changes",
		"codec/jsonplan.readPlans":        "see codec/jsonplan.plans",
		"codec/precheck.shapes":           "see codec/jsonplan.plans",
		"codec/jsonplan.writerPool":       "a pool of reusable memory that holds no data between objects",
		"codec/jsonplan.scratchPool":      "a pool of reusable memory that holds no data between objects",
		"filters/authn.uidAttribute":      "an object identifier; its type is a slice",
		"endpoints.bodyPool":              "a pool of reusable memory that holds no data between requests",
		"endpoints.chunkPool":             "a pool of reusable memory that holds no data between requests",
		"endpoints.eventPool":             "a pool of reusable memory that holds no data between events",
		"endpoints.gzipPool":              "a pool of reusable memory that holds no data between requests",
		"storage/kv/etcdtest.etcdBinary":  "the path of a binary that is built once for all tests",
		"codec/protoequal.buffers":        "a pool of reusable memory that holds no data between comparisons",
		"feature.table":                   "an embedded file",
		"feature.specs":                   "the rows of table, parsed once",
		"admission/podsecurity.standards": "the checks of all versions, which are immutable; created once",
		"endpoints/openapi.optionsFile":   "an embedded file",
		"endpoints/openapi.anyMedia":      "a list that is only read",
		"endpoints/openapi.builtinMedia":  "a list that is only read",
		"endpoints/openapi.streamMedia":   "a list that is only read",
		"endpoints/openapi.customMedia":   "a list that is only read",
		"endpoints/openapi.builtinPatch":  "a list that is only read",
		"endpoints/openapi.customPatch":   "a list that is only read",
		"endpoints/openapi.textMedia":     "a list that is only read",
		"cel/environment.base":            "created once, only from constants; a cel.Env is immutable and safe for concurrent use",
	}
}

// TestNoGlobalState checks that no package has an init function or a variable with state. Servers receive their
// dependencies in a Config, so that several servers in one process are independent.
func TestNoGlobalState(t *testing.T) {
	t.Parallel()
	allowed, packages := allowedGlobals(), newImporter(t)
	for _, p := range ours(t) {
		if inside(p.path(), "test") || inside(p.path(), "tools/gen") || inside(p.path(), "tools/release") {
			continue
		}
		s := parse(t, p)
		s.check(t, p, packages)
		for _, file := range s.files {
			if ast.IsGenerated(file) {
				continue
			}
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
					t.Errorf("%s: init functions are not allowed", s.fset.Position(f.Pos()))
				}
			}
			for _, name := range globals(file) {
				key := p.path() + "." + name.Name
				if _, ok := allowed[key]; ok {
					delete(allowed, key)
					continue
				}
				if what := mutable(s.info.Defs[name].Type()); what != "" {
					t.Errorf("%s: variable %s is %s: move the state to a value, or add the variable to allowedGlobals if it never changes", s.fset.Position(name.Pos()), name.Name, what)
				}
			}
		}
	}
	for key := range allowed {
		t.Errorf("allowedGlobals contains %s, which does not exist", key)
	}
}

// globals returns the names of a file's package-level variables, except _.
func globals(file *ast.File) []*ast.Ident {
	var names []*ast.Ident
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.VAR {
			continue
		}
		for _, spec := range d.Specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				if name.Name != "_" {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// mutable describes why a variable of a type can hold state. It returns "" if the type is a plain value, error,
// *regexp.Regexp or *strings.Replacer.
func mutable(t types.Type) string {
	switch t.String() {
	case "*regexp.Regexp", "*strings.Replacer", "error":
		return ""
	}
	if inPackage(t, "sync", "sync/atomic") {
		return "a lock or an atomic"
	}
	switch t := t.Underlying().(type) {
	case *types.Map:
		return "a map"
	case *types.Slice:
		return "a slice"
	case *types.Pointer:
		return "a pointer"
	case *types.Chan:
		return "a channel"
	case *types.Signature:
		return "a function, which may keep state"
	case *types.Struct:
		for field := range t.Fields() {
			if inPackage(field.Type(), "sync", "sync/atomic") {
				return "a struct with a lock or an atomic"
			}
		}
	}
	return ""
}

func inPackage(t types.Type, paths ...string) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && slices.Contains(paths, named.Obj().Pkg().Path())
}
