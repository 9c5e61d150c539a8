package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"testing"
)

// allowedGlobals contains package-level variables whose types are mutable but which never change,
// with the reason why a constant or a function cannot replace them.
func allowedGlobals() map[string]string {
	return map[string]string{
		"codec/jsonplan.plans":            "follows from types alone; each is worked out once and never changes",
		"codec/jsonplan.readPlans":        "as plans",
		"codec/precheck.shapes":           "as plans",
		"codec/jsonplan.writerPool":       "memory to be used again; holds nothing between objects",
		"codec/jsonplan.scratchPool":      "memory to be used again; holds nothing between objects",
		"filters/authn.uidAttribute":      "an object identifier; its type is a slice",
		"endpoints.bodyPool":              "memory to be used again; holds nothing between requests",
		"endpoints.chunkPool":             "memory to be used again; holds nothing between requests",
		"endpoints.eventPool":             "memory to be used again; holds nothing between events",
		"endpoints.gzipPool":              "memory to be used again; holds nothing between requests",
		"storage/kv/etcdtest.etcdBinary":  "the path of a program that tests run; it is built once for all of them",
		"codec/protoequal.buffers":        "memory to be used again; holds nothing between comparisons",
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
		"cel/environment.base":            "made once, of constants alone; a cel.Env is immutable and safe for concurrent use",
	}
}

// TestNoGlobalState checks that no package has an init function or a variable with state. Servers receive
// their dependencies in a Config, so that two servers in a process are independent.
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
					t.Errorf("%s: a package does nothing before it is called", s.fset.Position(f.Pos()))
				}
			}
			for _, name := range globals(file) {
				key := p.path() + "." + name.Name
				if _, ok := allowed[key]; ok {
					delete(allowed, key)
					continue
				}
				if what := mutable(s.info.Defs[name].Type()); what != "" {
					t.Errorf("%s: variable %s is %s: state belongs to a value; if it is never changed, say so in allowedGlobals", s.fset.Position(name.Pos()), name.Name, what)
				}
			}
		}
	}
	for key := range allowed {
		t.Errorf("allowedGlobals holds %s, which is not there", key)
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

// mutable describes the mutable part of a type. It returns "" for immutable types: values, errors,
// and pointers to immutable types.
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
