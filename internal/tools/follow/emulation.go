package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mainstay.dev/mainstay/internal/feature"
)

// The files that describe which kinds and fields the emulated versions lack.
const (
	emulatedKindsFile  = "internal/feature/emulation/kinds.tsv"
	emulatedFieldsFile = "internal/feature/emulation/fields.tsv"
	// clientFieldsFile contains the fields of each type in the schemas of client-go. It is test data. %d stands
	// for the minor version.
	clientFieldsFile = "internal/endpoints/openapi/testdata/fields-1.%d.json.gz"
)

const kindsHeader = `# Kinds that older minor versions of Kubernetes do not have, from the published versions of the modules: API version, kind,
# minor version that added it.
`

const fieldsHeader = `# Fields of the API that older minor versions of Kubernetes do not have or disable, from the published versions of the
# modules: type, field, minor version that added the field ("-": it is older than all emulated versions), and the feature
# gates of the field that are locked today but were disabled in some version ("-": none).
`

// writeEmulation writes the tables of kinds and fields that emulated versions lack. It reads the first patch
// version of each older minor version.
func (c *command) writeEmulation(ctx context.Context) error {
	releases := map[int]release{}
	for minor := feature.Oldest; minor <= feature.Newest; minor++ {
		releases[minor] = release{}
		for _, s := range sources() {
			if s.api == "" {
				continue
			}
			s.code = ""
			version := fmt.Sprintf("v0.%d.0", minor)
			fmt.Fprintf(c.progress, "reading %s %s\n", s.module, version)
			if err := c.readModule(ctx, s, version, releases[minor]); err != nil {
				return err
			}
		}
		releases[minor].promoteEmbedded()
		if minor < feature.Newest {
			if err := c.writeClientFields(ctx, minor); err != nil {
				return err
			}
		}
	}
	if err := c.writeTable(emulatedKindsFile, kindsHeader, emulatedKinds(releases)); err != nil {
		return err
	}
	return c.writeTable(emulatedFieldsFile, fieldsHeader, emulatedFields(releases))
}

func (c *command) writeTable(name, header string, rows []string) error {
	return os.WriteFile(filepath.Join(c.root, filepath.FromSlash(name)), []byte(header+strings.Join(rows, "")), 0o644)
}

// emulatedKinds returns the sorted rows of the table of kinds.
func emulatedKinds(releases map[int]release) []string {
	var rows []string
	for k := range releases[feature.Newest] {
		if k.Category != kind {
			continue
		}
		added := feature.Newest
		for minor := feature.Newest; minor >= feature.Oldest; minor-- {
			if _, ok := releases[minor][k]; ok {
				added = minor
			}
		}
		if dot := strings.LastIndex(k.Name, "."); added > feature.Oldest {
			rows = append(rows, fmt.Sprintf("%s\t%s\t%d\n", k.Name[:dot], k.Name[dot+1:], added))
		}
	}
	slices.Sort(rows)
	return rows
}

// promoteEmbedded adds the fields of embedded types to the types that embed them, because JSON does not contain
// the embedded types.
func (r release) promoteEmbedded() {
	for added := true; added; {
		added = false
		for _, d := range r {
			if d.Category != field || !strings.HasSuffix(d.Name, "("+d.GoName+")") {
				continue
			}
			for _, promoted := range r.fieldsOf(d.Package, d.GoName) {
				json := strings.TrimPrefix(promoted.Name, promoted.Parent.Name+".")
				promoted.Name, promoted.Parent = d.Parent.Name+"."+json, d.Parent
				if _, ok := r[key{field, promoted.Name}]; !ok && !strings.HasPrefix(json, "(") {
					r.add(promoted)
					added = true
				}
			}
		}
	}
}

// fieldsOf returns the fields of the type goName in apiPackage.
func (r release) fieldsOf(apiPackage, goName string) []declaration {
	var list []declaration
	for _, d := range r {
		if d.Category == field && d.Package == apiPackage && strings.HasSuffix(d.Parent.Name, "."+goName) {
			list = append(list, d)
		}
	}
	return list
}

// emulatedFields returns the sorted rows of the table of fields.
func emulatedFields(releases map[int]release) []string {
	var rows []string
	for k, d := range releases[feature.Newest] {
		if k.Category != field || strings.HasSuffix(d.Name, ")") {
			continue
		}
		added, withParent, gates := feature.Newest, false, []string{}
		for minor := feature.Newest; minor >= feature.Oldest; minor-- {
			earlier, ok := releases[minor][k]
			if ok {
				added = minor
				_, parentIsOlder := releases[minor-1][d.Parent]
				withParent = !parentIsOlder
				gates = append(gates, markedGates("+featureGate", earlier.Attributes["+featureGate"])...)
			}
		}
		gates = slices.DeleteFunc(gates, func(name string) bool { return !wasDisabled(feature.Gate(name)) })
		slices.Sort(gates)
		row := []string{typeKey(d), strings.TrimPrefix(d.Name, d.Parent.Name+"."), "-", "-"}
		if added > feature.Oldest && !withParent {
			row[2] = fmt.Sprint(added)
		}
		if gates = slices.Compact(gates); len(gates) > 0 {
			row[3] = strings.Join(gates, ",")
		}
		if row[2] != "-" || row[3] != "-" {
			rows = append(rows, strings.Join(row, "\t")+"\n")
		}
	}
	slices.Sort(rows)
	return rows
}

// typeKey returns the key of the type that contains a field. It consists of the directory of the API version
// and the name of the type, such as core/v1.PodSpec.
func typeKey(d declaration) string {
	return d.Package + d.Parent.Name[strings.LastIndex(d.Parent.Name, "."):]
}

// wasDisabled reports whether a gate is locked to true in the newest version and disabled by default in an
// older one. The table omits the fields of other gates, because the built-in resources declare these fields as
// gated fields.
func wasDisabled(gate feature.Gate) bool {
	if newest, known := specIn(feature.Newest, gate); !known || !newest.Locked || !newest.Default {
		return false
	}
	for minor := feature.Oldest; minor < feature.Newest; minor++ {
		if older, known := specIn(minor, gate); !known || !older.Default {
			return true
		}
	}
	return false
}

// specIn returns the specification of a gate in a minor version, or false if the version does not have the
// gate.
func specIn(minor int, gate feature.Gate) (feature.Spec, bool) {
	for spec := range feature.KnownIn(minor) {
		if spec.Gate == gate {
			return spec, true
		}
	}
	return feature.Spec{}, false
}
