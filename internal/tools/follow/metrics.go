package main

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// addMetrics adds the metrics of a package. It finds them in struct literals of option types such as
// CounterOpts, and in calls of NewDesc. It omits metrics whose names are not constant.
func (r release) addMetrics(p *sourcePackage) {
	labels := p.metricLabels()
	p.inspect(func(n ast.Node) {
		switch n := n.(type) {
		case *ast.CompositeLit:
			options := typeName(n.Type)
			if kind, ok := strings.CutSuffix(options, "Opts"); ok && slices.Contains(metricKinds(), kind) {
				r.addMetric(p, strings.ToLower(kind), keyed(n), labels[n])
			}
		case *ast.CallExpr:
			if typeName(n.Fun) == "NewDesc" && len(n.Args) >= 5 {
				r.addDescription(p, n.Args)
			}
		}
	})
}

// metricKinds returns the prefixes of the option types of metrics, such as Counter in CounterOpts.
func metricKinds() []string {
	return []string{"Counter", "Gauge", "Histogram", "Summary", "TimingHistogram"}
}

func (r release) addMetric(p *sourcePackage, kind string, options map[string]ast.Expr, labels string) {
	name, ok := p.metricName(options["Namespace"], options["Subsystem"], options["Name"])
	if !ok {
		return
	}
	attributes := map[string]string{"type": kind, "stability": "ALPHA"}
	if labels != "" {
		attributes["labels"] = labels
	}
	for option, attribute := range map[string]string{"StabilityLevel": "stability", "DeprecatedVersion": "deprecated"} {
		if value, ok := options[option]; ok {
			attributes[attribute] = p.valueText(value)
		}
	}
	help, _ := p.text(options["Help"])
	r.add(declaration{Category: metric, Name: name, Attributes: attributes, Doc: help})
}

// addDescription adds a metric of a custom collector. args are the arguments of NewDesc(name, help, labels,
// constLabels, stability, deprecated).
func (r release) addDescription(p *sourcePackage, args []ast.Expr) {
	name, ok := p.text(args[0])
	if call, isCall := args[0].(*ast.CallExpr); isCall && typeName(call.Fun) == "BuildFQName" && len(call.Args) == 3 {
		name, ok = p.metricName(call.Args[0], call.Args[1], call.Args[2])
	}
	if !ok {
		return
	}
	attributes := map[string]string{"stability": p.valueText(args[4])}
	if labels := p.list(args[2]); labels != "" {
		attributes["labels"] = labels
	}
	help, _ := p.text(args[1])
	r.add(declaration{Category: metric, Name: name, Attributes: attributes, Doc: help})
}

// metricName joins the parts of a name with "_". It returns false if a part is not constant.
func (p *sourcePackage) metricName(parts ...ast.Expr) (string, bool) {
	var names []string
	for _, part := range parts {
		if part == nil {
			continue
		}
		name, ok := p.text(part)
		if !ok {
			return "", false
		}
		if name != "" {
			names = append(names, name)
		}
	}
	return strings.Join(names, "_"), len(names) > 0
}

// metricLabels returns the labels of metrics that are constructed as New…Vec(&Options{…}, []string{…}). The
// keys are the literals of the options.
func (p *sourcePackage) metricLabels() map[*ast.CompositeLit]string {
	labels := map[*ast.CompositeLit]string{}
	p.inspect(func(n ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) < 2 {
			return
		}
		if pointer, ok := call.Args[0].(*ast.UnaryExpr); ok {
			if literal, ok := pointer.X.(*ast.CompositeLit); ok {
				labels[literal] = p.list(call.Args[1])
			}
		}
	})
	return labels
}

// list returns the elements of a list of strings, separated by commas. It returns "" for other expressions.
func (p *sourcePackage) list(e ast.Expr) string {
	literal, ok := e.(*ast.CompositeLit)
	if !ok {
		return ""
	}
	var names []string
	for _, element := range literal.Elts {
		names = append(names, p.valueText(element))
	}
	return strings.Join(names, ",")
}

// valueText returns the value of a string expression. For a constant of another package, it returns the name of
// the constant.
func (p *sourcePackage) valueText(e ast.Expr) string {
	if text, ok := p.text(e); ok {
		return text
	}
	if name := typeName(e); name != "" {
		return name
	}
	return types.ExprString(e)
}
