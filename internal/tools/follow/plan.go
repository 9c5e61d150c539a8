package main

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// plan returns the work that a change requires in this project.
func (p *project) plan(c change) work {
	switch c.Category {
	case apiVersion:
		return p.planVersion(c)
	case kind:
		return p.planKind(c)
	case apiType, field:
		return p.planType(c)
	case gate:
		return p.planGate(c)
	case flagged:
		return p.planFlag(c)
	default:
		return p.planMetric(c)
	}
}

// groupFile returns the file that declares the resources of an API group.
func groupFile(apiPackage string) string {
	return path.Join(builtinDir, path.Dir(apiPackage), "group.go")
}

func (p *project) planVersion(c change) work {
	users := p.mentions("internal", `"k8s\.io/api/`+regexp.QuoteMeta(c.declaration.Package)+`"`)
	switch {
	case c.Change == removed && len(users) == 0:
		return work{State: generated, Files: []string{openAPIDir}}
	case c.Change == removed:
		return work{State: edit, Files: users}
	case len(users) > 0:
		return work{State: done, Files: users}
	}
	return work{State: edit, Files: []string{groupFile(c.declaration.Package)}, Note: "serve the version, or note in docs/reference/conformance.md why not"}
}

func (p *project) planKind(c change) work {
	group := groupFile(c.declaration.Package)
	has := strings.Contains(p.sources[group], `"`+c.declaration.GoName+`"`)
	until, err := strconv.Atoi(strings.TrimPrefix(c.declaration.Attributes["+k8s:prerelease-lifecycle-gen:removed"], "1."))
	switch {
	case c.Change == added && has:
		return work{State: done, Files: []string{group}}
	case c.Change == removed && !has:
		return work{State: done}
	case c.Change == changed && err == nil && until <= p.minor:
		return work{State: done, Note: "Kubernetes does not serve the kind in this version any more"}
	case c.Change == changed && !has:
		return work{State: check, Files: []string{group}, Note: "the group has no row for the kind"}
	case c.Change == changed:
		return work{State: check, Files: []string{group}, Note: "compare Deprecated and the stages of the versions in the row"}
	}
	return work{State: edit, Files: []string{group}}
}

// planType returns the work for a type or a field. OpenAPI schemas and the validation that markers declare are
// generated. Other code that depends on the type or field uses its Go name.
func (p *project) planType(c change) work {
	d := c.declaration
	dir := path.Join(builtinDir, path.Dir(d.Package))
	if len(p.mentions(dir, "")) == 0 {
		return work{State: check, Note: "this project has no package for the group"}
	}
	switch {
	case c.Change == added && d.Attributes["+featureGate"] != "":
		return work{State: edit, Files: []string{dir}, Note: "GatedFields of the row; validation and defaults"}
	case c.Change == added:
		return work{State: edit, Files: []string{dir}, Note: "validation and defaults; kubectl columns if the field is shown"}
	}
	files := p.usersOf(d, dir)
	switch {
	case c.Change == removed, slices.ContainsFunc(c.Attributes, func(a attribute) bool { return isManual(a.Name) }):
		if len(files) == 0 {
			return work{State: check, Files: []string{dir}, Note: "no file there uses the name"}
		}
		return work{State: edit, Files: files}
	case p.hasDeclared(d.Package):
		return work{State: generated, Files: []string{openAPIDir, path.Join(declaredDir, path.Dir(d.Package))}}
	case slices.ContainsFunc(c.Attributes, func(a attribute) bool { return strings.HasPrefix(a.Name, "+k8s:") }):
		return work{State: check, Files: files, Note: "compare the declared rule with the rule that is written by hand"}
	}
	return work{State: generated, Files: []string{openAPIDir}}
}

// usersOf returns the files of a group that use a type or field by its Go name. For the core group, it also
// searches podspec, which contains the rules for pods.
func (p *project) usersOf(d declaration, dir string) []string {
	pattern := `\b` + d.GoName + `\b`
	if d.Category == field {
		pattern = `\.` + d.GoName + `\b|\b` + d.GoName + `:`
	}
	files := p.mentions(dir, pattern)
	if path.Dir(d.Package) == "core" {
		files = append(files, p.mentions(builtinDir+"/podspec", pattern)...)
	}
	return files
}

// isManual reports whether a change of an attribute can require changes to code that is not generated.
func isManual(attribute string) bool {
	return attribute == "+featureGate" || attribute == "type" || attribute == "values"
}

// hasDeclared reports whether this project generates validation code from the markers of a package.
func (p *project) hasDeclared(apiPackage string) bool {
	return len(p.mentions(declaredDir, `validation-gen-input=k8s\.io/api/`+regexp.QuoteMeta(apiPackage)+`\s`)) > 0
}

func (p *project) planGate(c change) work {
	row, has := p.gates[c.Name]
	used := p.mentions("internal", `\bfeature\.`+regexp.QuoteMeta(c.Name)+`\b`)
	switch {
	case c.Change == removed && !has:
		return work{State: done}
	case c.Change == removed && c.declaration.Attributes["declared in"] != "":
		return work{State: check, Files: []string{gatesFile}, Note: "no API field names the gate any more"}
	case c.Change == removed && len(used) > 0:
		return work{State: edit, Files: append([]string{gatesFile, gateNames}, used...), Note: "remove the gate from the code first"}
	case c.Change == removed:
		return work{State: generated, Files: []string{gatesFile}}
	case c.declaration.Attributes["declared in"] != "":
		if has {
			return work{State: done, Files: []string{gatesFile}}
		}
		return work{State: edit, Files: []string{gatesFile}, Note: "default and stage are in pkg/features/kube_features.go of the main repository"}
	case has && slices.Equal(row[:5], gateRow(c.declaration, row)[:5]):
		return work{State: done, Files: []string{gatesFile}}
	case c.Change == added:
		return work{State: edit, Files: []string{gatesFile}, Note: "-update adds the row; implement the gate, and describe its effect"}
	}
	return work{State: generated, Files: append([]string{gatesFile}, used...)}
}

func (p *project) planFlag(c change) work {
	kind, has := p.flags[c.Name]
	users := p.mentions("internal", `"`+regexp.QuoteMeta(c.Name)+`"`)
	files := append([]string{flagsFile}, users...)
	switch {
	case c.Change == removed && !has, c.Change == changed && !has:
		return work{State: done, Note: "kube-apiserver does not have the flag"}
	case c.Change == added && has:
		return work{State: done, Files: files}
	case c.Change == added:
		return work{State: check, Files: files, Note: "if kube-apiserver has the flag: a row, and a field with its flag"}
	case c.Change == changed && len(users) == 0 && c.declaration.Attributes["type"] == kind:
		return work{State: done, Note: "this project does not have the flag"}
	}
	return work{State: edit, Files: files}
}

func (p *project) planMetric(c change) work {
	has := strings.Contains(p.metrics, "`"+c.Name+"`")
	stable := c.declaration.Attributes["stability"] == "STABLE" || c.declaration.Attributes["stability"] == "BETA"
	switch {
	case has && c.Change == added:
		return work{State: done, Files: []string{metricsFile}}
	case !has && c.Change == removed:
		return work{State: done}
	case !has && stable:
		return work{State: edit, Files: []string{stableMetrics}, Note: "stable and beta metrics are required, except for mechanisms that this project does not have"}
	case !has:
		return work{State: check, Note: "an alpha metric, which this project does not have"}
	}
	return work{State: edit, Files: append(p.mentions("internal", `"`+regexp.QuoteMeta(metricSuffix(c.Name))+`"`), metricsFile)}
}

// metricSuffix returns the name of a metric without its first part, such as "apiserver_". The options of a
// metric usually contain the name in this form.
func metricSuffix(name string) string {
	_, suffix, ok := strings.Cut(name, "_")
	if !ok {
		return name
	}
	return suffix
}
