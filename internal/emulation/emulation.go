// Package emulation describes the API of an older minor version of Kubernetes: the fields that it does
// not have or disables, and the resources that it serves (KEP-4330).
package emulation

import (
	_ "embed"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/feature"
)

// The minor versions that can be emulated. Newest is the version of the API itself.
const (
	Oldest = feature.Oldest
	Newest = feature.Newest
)

// The tables are written by "go run ./internal/follow -emulation"; their headers describe the columns.
var (
	//go:embed kinds.tsv
	kindTable string
	//go:embed fields.tsv
	fieldTable string
)

// Release is an emulated minor version of Kubernetes. A nil *Release is the Newest version, which has
// everything. It is immutable and safe for concurrent use.
type Release struct {
	minor             int
	forward, explicit bool // see Options
	// newKinds are the kinds that the version does not have.
	newKinds map[schema.GroupVersionKind]bool
	// states maps fields to their state, by type and JSON name.
	states map[string]map[string]fieldState
}

// fieldState is the state of a field that the emulated version lacks.
type fieldState int

const (
	disabled fieldState = iota + 1 // the field exists, but its feature gate is disabled
	missing                        // the field does not exist
)

// Options configure an emulated version.
type Options struct {
	// Minor is the emulated minor version; 0 means Newest.
	Minor int
	// Forward also serves stable versions of resources that the emulated version lacks
	// (--emulation-forward-compatible).
	Forward bool
	// ForwardEnabled also serves newer versions of resources that are enabled explicitly
	// (--runtime-config-emulation-forward-compatible).
	ForwardEnabled bool
}

// New returns an emulated version, or nil for the Newest one. gates are the gates of the same minor
// version. It returns an error for a version that cannot be emulated.
func New(o Options, gates feature.Gates) (*Release, error) {
	switch {
	case o.Minor == 0 || o.Minor == Newest:
		return nil, nil
	case o.Minor < Oldest || o.Minor > Newest:
		return nil, fmt.Errorf("version 1.%d cannot be emulated: choose a version from 1.%d to 1.%d", o.Minor, Oldest, Newest)
	}
	r := &Release{
		minor: o.Minor, forward: o.Forward, explicit: o.ForwardEnabled,
		newKinds: map[schema.GroupVersionKind]bool{}, states: map[string]map[string]fieldState{},
	}
	for column := range rowsOf(kindTable) {
		if added, err := strconv.Atoi(column[2]); err != nil || added > o.Minor {
			r.newKinds[schema.FromAPIVersionAndKind(column[0], column[1])] = true
		}
	}
	for column := range rowsOf(fieldTable) {
		if state := stateOf(column[2], column[3], o.Minor, gates); state != 0 {
			if r.states[column[0]] == nil {
				r.states[column[0]] = map[string]fieldState{}
			}
			r.states[column[0]][column[1]] = state
		}
	}
	return r, nil
}

// rowsOf returns the columns of each row of a table.
func rowsOf(table string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for line := range strings.Lines(table) {
			if !strings.HasPrefix(line, "#") && !yield(strings.Split(strings.TrimSuffix(line, "\n"), "\t")) {
				return
			}
		}
	}
}

// stateOf returns the state of a field, or 0 if the version has the field.
func stateOf(added, needs string, minor int, gates feature.Gates) fieldState {
	if n, err := strconv.Atoi(added); err == nil && n > minor {
		return missing
	}
	if needs == "-" {
		return 0
	}
	isDisabled := func(gate string) bool { return !gates.Enabled(feature.Gate(gate)) }
	if slices.ContainsFunc(strings.Split(needs, ","), isDisabled) {
		return disabled
	}
	return 0
}

// Minor returns the minor version.
func (r *Release) Minor() int {
	if r == nil {
		return Newest
	}
	return r.minor
}

// HasField reports whether a type has a field, which may be disabled. model is the name of the type in
// OpenAPI documents, such as io.k8s.api.core.v1.PodSpec.
func (r *Release) HasField(model, json string) bool {
	return r == nil || r.states[modelKey(model)][json] != missing
}

// LacksFields reports whether HasField returns false for some field of a type.
func (r *Release) LacksFields(model string) bool {
	if r == nil {
		return false
	}
	for _, state := range r.states[modelKey(model)] {
		if state == missing {
			return true
		}
	}
	return false
}

// modelKey returns the key of a type in the table.
func modelKey(model string) string {
	parts := strings.Split(model, ".")
	if len(parts) < 3 {
		return model
	}
	parts = parts[len(parts)-3:]
	return parts[0] + "/" + parts[1] + "." + parts[2]
}

// HasKind reports whether the version has a kind in an API version.
func (r *Release) HasKind(gvk schema.GroupVersionKind) bool { return r == nil || !r.newKinds[gvk] }

// Serves reports whether a kind is served in an API version: the version has it, or a forward
// compatible option permits it. enabled reports that the user has enabled it explicitly.
func (r *Release) Serves(gvk schema.GroupVersionKind, enabled bool) bool {
	return r.HasKind(gvk) || r.forward && isStable(gvk.Version) || r.explicit && enabled
}

func isStable(version string) bool {
	return !strings.Contains(version, "alpha") && !strings.Contains(version, "beta")
}
