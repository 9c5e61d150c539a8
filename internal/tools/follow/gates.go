package main

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// addGates adds the feature gates of a package, which are the entries of map literals with the value type
// VersionedSpecs. The last specification of each gate applies.
func (r release) addGates(p *sourcePackage) {
	needs := p.gateDependencies()
	p.inspect(func(n ast.Node) {
		literal, ok := n.(*ast.CompositeLit)
		if !ok || gateMap(literal) != "VersionedSpecs" {
			return
		}
		for name, value := range p.gateEntries(literal) {
			specs, ok := value.(*ast.CompositeLit)
			if !ok || len(specs.Elts) == 0 {
				continue
			}
			last, ok := specs.Elts[len(specs.Elts)-1].(*ast.CompositeLit)
			if !ok {
				continue
			}
			r.add(declaration{Category: gate, Name: name, Attributes: p.gateAttributes(last, needs[name])})
		}
	})
}

// gateMap returns the value type of a map literal whose key type is Feature, and "" for other literals.
func gateMap(literal *ast.CompositeLit) string {
	m, ok := literal.Type.(*ast.MapType)
	if !ok || typeName(m.Key) != "Feature" {
		return ""
	}
	if list, ok := m.Value.(*ast.ArrayType); ok {
		return "[]" + typeName(list.Elt)
	}
	return typeName(m.Value)
}

// gateEntries returns the values of a map literal, by the name of the gate.
func (p *sourcePackage) gateEntries(literal *ast.CompositeLit) map[string]ast.Expr {
	entries := map[string]ast.Expr{}
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			entries[p.gateName(pair.Key)] = pair.Value
		}
	}
	return entries
}

// gateName returns the name of a gate. For a constant of another package, it returns the name of the constant.
func (p *sourcePackage) gateName(e ast.Expr) string {
	if name, ok := p.text(e); ok {
		return name
	}
	return typeName(e)
}

// gateDependencies returns, for each gate, the names of the gates on which it depends, separated by commas.
func (p *sourcePackage) gateDependencies() map[string]string {
	needs := map[string]string{}
	p.inspect(func(n ast.Node) {
		literal, ok := n.(*ast.CompositeLit)
		if !ok || gateMap(literal) != "[]Feature" {
			return
		}
		for name, value := range p.gateEntries(literal) {
			list, ok := value.(*ast.CompositeLit)
			if !ok {
				continue
			}
			var names []string
			for _, element := range list.Elts {
				names = append(names, p.gateName(element))
			}
			slices.Sort(names)
			needs[name] = strings.Join(names, ",")
		}
	})
	return needs
}

// gateAttributes returns the attributes of a specification. The stage is spelled as in gates.tsv.
func (p *sourcePackage) gateAttributes(spec *ast.CompositeLit, needs string) map[string]string {
	attributes := map[string]string{"default": "false", "stage": "GA"}
	if needs != "" {
		attributes["depends on"] = needs
	}
	for name, value := range keyed(spec) {
		switch name {
		case "Default":
			attributes["default"] = types.ExprString(value)
		case "PreRelease":
			attributes["stage"] = strings.ToUpper(typeName(value))
		case "LockToDefault":
			if types.ExprString(value) == "true" {
				attributes["locked"] = "true"
			}
		case "Version":
			if call, ok := value.(*ast.CallExpr); ok && len(call.Args) == 1 {
				attributes["since"], _ = p.text(call.Args[0])
			}
		}
	}
	return attributes
}

// addMarkedGates adds the gates that occur in markers of API fields but are not declared in a published module.
// The main Kubernetes repository declares these gates.
func (r release) addMarkedGates() {
	for _, d := range r {
		for marker, value := range d.Attributes {
			for _, name := range markedGates(marker, value) {
				r.add(declaration{Category: gate, Name: name, Attributes: map[string]string{"declared in": "k8s.io/kubernetes"}})
			}
		}
	}
}

// markedGates returns the names of the gates in the value of a marker.
func markedGates(marker, value string) []string {
	var names []string
	switch marker {
	case "+featureGate":
		for part := range strings.SplitSeq(value, ",") {
			names = append(names, strings.Trim(part, `" `))
		}
	case "+k8s:ifEnabled", "+k8s:ifDisabled":
		for _, part := range strings.Split(value, "(")[1:] {
			name, _, _ := strings.Cut(part, ")")
			names = append(names, strings.Trim(name, `" `))
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" || strings.ContainsAny(name, " =:") })
}
