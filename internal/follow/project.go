package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Files of this project, relative to its root.
const (
	gatesFile     = "internal/feature/gates.tsv"
	gateNames     = "internal/feature/names.go"
	flagsFile     = "cmd/mainstay/upstream-flags.tsv"
	metricsFile   = "docs/reference/metrics.md"
	versionFile   = "internal/controlplane/version.go"
	builtinDir    = "internal/apis/builtin"
	declaredDir   = "internal/apis/builtin/declarative"
	openAPIDir    = "internal/endpoints/openapi/data"
	stableMetrics = "internal/host/dashboards_test.go"
)

// The states of a change in this project.
const (
	done      = "done"      // the project has it
	generated = "generated" // -update makes the change
	edit      = "edit"      // the files need an edit
	check     = "check"     // a person decides whether there is anything to do
)

// work describes what a change requires in this project.
type work struct {
	State string   `json:"state"`
	Files []string `json:"files,omitempty"`
	Note  string   `json:"note,omitempty"`
}

// project is the state of this repository that the report compares with.
type project struct {
	gates   map[string][]string // columns of the gate table, by name
	flags   map[string]string   // types by name
	metrics string              // the page with all metrics
	minor   int                 // minor version of Kubernetes that the project is compared with
	sources map[string]string   // Go files without tests, by name
}

// readProject reads the tables and the source of the repository.
func readProject(root fs.FS, version string) (*project, error) {
	minor, err := minorOf(version)
	if err != nil {
		return nil, err
	}
	p := &project{minor: minor, gates: map[string][]string{}, flags: map[string]string{}, sources: map[string]string{}}
	if err := eachRow(root, gatesFile, 6, func(row []string) { p.gates[row[0]] = row }); err != nil {
		return nil, err
	}
	if err := eachRow(root, flagsFile, 3, func(row []string) { p.flags[row[0]] = row[1] }); err != nil {
		return nil, err
	}
	metrics, err := fs.ReadFile(root, metricsFile)
	if err != nil {
		return nil, fmt.Errorf("read the metrics of this project: %w", err)
	}
	p.metrics = string(metrics)
	for _, dir := range []string{"apitest", "cmd", "internal"} {
		if err := p.readSources(root, dir); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// readSources reads the Go files below a directory. The directory may be absent.
func (p *project) readSources(root fs.FS, dir string) error {
	return fs.WalkDir(root, dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err) && name == dir:
			return nil
		case err != nil:
			return err
		case entry.IsDir() || !isSource(entry.Name()):
			return nil
		}
		source, err := fs.ReadFile(root, name)
		p.sources[name] = string(source)
		return err
	})
}

// eachRow calls visit for each row of a table with tab-separated columns.
func eachRow(root fs.FS, name string, columns int, visit func([]string)) error {
	table, err := fs.ReadFile(root, name)
	if err != nil {
		return fmt.Errorf("read a table of this project: %w", err)
	}
	for line := range strings.Lines(string(table)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(row) != columns {
			return fmt.Errorf("%s: %q has %d columns, want %d", name, row[0], len(row), columns)
		}
		visit(row)
	}
	return nil
}

// mentions returns the files in and below a directory that contain a match, sorted.
func (p *project) mentions(dir string, pattern string) []string {
	expression := regexp.MustCompile(pattern)
	var files []string
	for name, source := range p.sources {
		if strings.HasPrefix(name, dir+"/") && expression.MatchString(source) {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return files
}

// plan returns what a change requires in this project.
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

// groupFile returns the file with the rows of an API group.
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

// planType returns the work for a type or a field. Validation and OpenAPI that markers describe are
// generated; the rest is in files that use the Go name.
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

// usersOf returns the files of a group that use a type or field by its Go name. Rules of pods are
// also in podspec.
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

// isManual reports whether a change of an attribute of a type can require an edit of code that is
// not generated.
func isManual(attribute string) bool {
	return attribute == "+featureGate" || attribute == "type" || attribute == "values"
}

// hasDeclared reports whether the rules that the markers of a package declare are generated.
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

// gateRow returns the row of the gate table for a declared gate. It keeps the effect of the current
// row, which may be nil.
func gateRow(d declaration, current []string) []string {
	row := []string{d.Name, d.Attributes["default"], d.Attributes["stage"], "-", "-", "-"}
	if d.Attributes["locked"] != "" {
		row[3] = "locked"
	}
	if needs := d.Attributes["depends on"]; needs != "" {
		row[4] = needs
	}
	if current != nil {
		row[5] = current[5]
		if row[4] == "-" {
			row[4] = current[4] // the main repository declares dependencies, too
		}
	}
	return row
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

// metricSuffix returns the end of the name of a metric, as in the field Name of its options.
func metricSuffix(name string) string {
	_, suffix, ok := strings.Cut(name, "_")
	if !ok {
		return name
	}
	return suffix
}

// updateGates writes the changes of published gates into the gate table. It keeps the rows of removed
// gates that the code uses.
func (p *project) updateGates(root string, before, after release) error {
	rows := maps.Clone(p.gates)
	for _, k := range slices.Concat(before.sorted(), after.sorted()) {
		switch d, ok := after[k]; {
		case k.Category != gate, maps.Equal(before[k].Attributes, d.Attributes):
		case ok && d.Attributes["stage"] != "":
			rows[k.Name] = gateRow(d, rows[k.Name])
		case !ok && before[k].Attributes["stage"] != "" && len(p.mentions("internal", `\bfeature\.`+regexp.QuoteMeta(k.Name)+`\b`)) == 0:
			delete(rows, k.Name)
		}
	}
	name := filepath.Join(root, filepath.FromSlash(gatesFile))
	table, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var updated strings.Builder
	for line := range strings.Lines(string(table)) {
		if strings.HasPrefix(line, "#") {
			updated.WriteString(line)
		}
	}
	for _, gate := range slices.Sorted(maps.Keys(rows)) {
		updated.WriteString(strings.Join(rows[gate], "\t") + "\n")
	}
	return os.WriteFile(name, []byte(updated.String()), 0o644)
}

// updateMinor sets the minor version of Kubernetes, and the compatible minor version before it.
func updateMinor(root, version string) error {
	minor, err := minorOf(version)
	if err != nil {
		return err
	}
	name := filepath.Join(root, filepath.FromSlash(versionFile))
	source, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for constant, value := range map[string]int{"kubernetesMinor": minor, "compatibilityMinor": minor - 1} {
		pattern := regexp.MustCompile(`(\b` + constant + `\s*= )"[0-9]+"`)
		if !pattern.Match(source) {
			return fmt.Errorf("%s has no constant %s: correct updateMinor in internal/follow", versionFile, constant)
		}
		source = pattern.ReplaceAll(source, fmt.Appendf(nil, `${1}"%d"`, value))
	}
	return os.WriteFile(name, source, 0o644)
}
