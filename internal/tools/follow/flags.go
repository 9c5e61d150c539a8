package main

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// addFlags adds the flags that a package defines with pflag. others contains all packages of the module,
// because constructors in other packages set some of the defaults.
func (r release) addFlags(p *sourcePackage, others []*sourcePackage) {
	defaults := optionDefaults([]*sourcePackage{p}, optionDefaults(others, nil))
	deprecated := map[string]string{}
	var found []declaration
	for _, file := range p.files {
		if !imports(file, "github.com/spf13/pflag") {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if method.Sel.Name == "MarkDeprecated" && len(call.Args) == 2 {
				name, _ := p.text(call.Args[0])
				deprecated[name], _ = p.text(call.Args[1])
			} else if d, ok := p.flagOf(method.Sel.Name, call.Args, defaults); ok {
				found = append(found, d)
			}
			return true
		})
	}
	for _, d := range found {
		if why, ok := deprecated[d.Name]; ok {
			d.Attributes["deprecated"] = why
		}
		r.add(d)
	}
}

// flagMethod matches the methods of pflag.FlagSet that define a flag for a variable.
var flagMethod = regexp.MustCompile(`^([A-Z][A-Za-z0-9]*)?Var(P|PF)?$`)

// flagName matches the name of a flag.
var flagName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// flagOf returns the flag that a call of a pflag.FlagSet method defines, or false if the method does not define
// a flag.
func (p *sourcePackage) flagOf(method string, args []ast.Expr, defaults map[string][]string) (declaration, bool) {
	parts := flagMethod.FindStringSubmatch(method)
	if parts == nil || len(args) < 3 {
		return declaration{}, false
	}
	name, ok := p.text(args[1])
	if !ok || !flagName.MatchString(name) {
		return declaration{}, false
	}
	position := 2 // index of the default
	if parts[2] != "" {
		position++
	}
	attributes := map[string]string{}
	if parts[1] == "" {
		attributes["type"] = valueType(args[0])
	} else if len(args) > position {
		attributes["type"] = strings.ToLower(parts[1][:1]) + parts[1][1:]
		attributes["default"] = defaultOf(args[position], defaults)
	}
	help, _ := p.text(args[len(args)-1])
	return declaration{Category: flagged, Name: name, Attributes: attributes, Doc: help}, true
}

// valueType returns the name of the constructor or type of a pflag.Value.
func valueType(e ast.Expr) string {
	if call, ok := e.(*ast.CallExpr); ok {
		return typeName(call.Fun)
	}
	return types.ExprString(e)
}

// defaultOf returns the text of a flag's default. If e is a field of an option struct, the text consists of the
// values in defaults that constructors assign to the field.
func defaultOf(e ast.Expr, defaults map[string][]string) string {
	if selector, ok := e.(*ast.SelectorExpr); ok {
		if values := defaults[selector.Sel.Name]; len(values) > 0 {
			return strings.Join(values, " or ")
		}
		return "zero value"
	}
	return types.ExprString(e)
}

// optionDefaults returns the sorted values that the packages' constructors assign to fields in struct literals,
// by field name. If a value is itself a field of default options, its values are taken from known, which may be
// nil.
func optionDefaults(packages []*sourcePackage, known map[string][]string) map[string][]string {
	defaults := map[string][]string{}
	for _, p := range packages {
		p.inspect(func(n ast.Node) {
			function, ok := n.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(function.Name.Name, "New") {
				return
			}
			ast.Inspect(function, func(n ast.Node) bool {
				if literal, ok := n.(*ast.CompositeLit); ok {
					for name, value := range keyed(literal) {
						defaults[name] = append(defaults[name], fieldValues(value, known)...)
					}
				}
				return true
			})
		})
	}
	for name, values := range defaults {
		slices.Sort(values)
		defaults[name] = slices.Compact(values)
	}
	return defaults
}

// fieldValues returns the possible values of an expression in a constructor of options. For a field of the
// variable defaults, it returns the values in known; the result is empty if known does not contain the field.
func fieldValues(e ast.Expr, known map[string][]string) []string {
	if selector, ok := e.(*ast.SelectorExpr); ok {
		if object, ok := selector.X.(*ast.Ident); ok && object.Name == "defaults" {
			return known[selector.Sel.Name]
		}
	}
	return []string{types.ExprString(e)}
}

// imports reports whether a file imports a package.
func imports(file *ast.File, path string) bool {
	return slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"`+path+`"` })
}
