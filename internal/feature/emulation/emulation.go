// Package emulation describes the APIs of older minor versions of Kubernetes, so that the server can emulate
// them (KEP-4330). It contains the kinds and fields that a version does not have, and the fields that it
// disables.
package emulation

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/feature/tsv"
)

// The minor versions that can be emulated. Newest is the version that the server implements without emulation.
const (
	Oldest = feature.Oldest
	Newest = feature.Newest
)

// The tables are written by "go run ./internal/tools/follow -emulation"; comments in the tables describe the
// columns.
var (
	//go:embed kinds.tsv
	kindTable string
	//go:embed fields.tsv
	fieldTable string
)

// Release is an emulated minor version of Kubernetes. A nil *Release is the Newest version, which has all kinds
// and fields. A Release is immutable and safe for concurrent use.
type Release struct {
	minor int
	// newKinds contains the kinds that later versions added.
	newKinds map[schema.GroupVersionKind]bool
	// states contains the states of fields that are missing or disabled, by type and JSON name.
	states map[string]map[string]fieldState
}

// fieldState is the state of a field that clients of the emulated version cannot set.
type fieldState int

const (
	disabled fieldState = iota + 1 // the field exists, but its feature gate is disabled
	missing                        // the field does not exist
)

// Check returns an error for a minor version that cannot be emulated. 0 means Newest.
func Check(minor int) error {
	if minor != 0 && (minor < Oldest || minor > Newest) {
		return fmt.Errorf("version 1.%d cannot be emulated: choose a version from 1.%d to 1.%d", minor, Oldest, Newest)
	}
	return nil
}

// New returns the Release for a minor version, or nil for Newest. The caller must have validated minor with
// Check. gates must be gates of the same version.
func New(minor int, gates feature.Gates) *Release {
	if minor == 0 || minor == Newest {
		return nil
	}
	r := &Release{minor: minor, newKinds: map[schema.GroupVersionKind]bool{}, states: map[string]map[string]fieldState{}}
	for column := range tsv.Rows(kindTable) {
		if added, err := strconv.Atoi(column[2]); err != nil || added > minor {
			r.newKinds[schema.FromAPIVersionAndKind(column[0], column[1])] = true
		}
	}
	for column := range tsv.Rows(fieldTable) {
		if state := stateOf(column[2], column[3], minor, gates); state != 0 {
			if r.states[column[0]] == nil {
				r.states[column[0]] = map[string]fieldState{}
			}
			r.states[column[0]][column[1]] = state
		}
	}
	return r
}

// stateOf returns the state of a field, or 0 if the version has the field and enables it. added is the minor
// version that added the field. needs lists the gates that the field needs, separated by commas, or is "-".
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

// HasField reports whether a type has a field. It also returns true for disabled fields. model is the name of
// the type in OpenAPI documents, such as io.k8s.api.core.v1.PodSpec, and json is the JSON name of the field.
func (r *Release) HasField(model, json string) bool {
	return r == nil || r.states[modelKey(model)][json] != missing
}

// LacksFields reports whether HasField returns false for at least one field of a type.
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

// modelKey converts a model name to the key of the type in the table, such as core/v1.PodSpec.
func modelKey(model string) string {
	parts := strings.Split(model, ".")
	if len(parts) < 3 {
		return model
	}
	parts = parts[len(parts)-3:]
	return parts[0] + "/" + parts[1] + "." + parts[2]
}

// HasKind reports whether the version has the kind in the API version of gvk.
func (r *Release) HasKind(gvk schema.GroupVersionKind) bool { return r == nil || !r.newKinds[gvk] }
