// Package feature contains the feature gates of Kubernetes v1.37 with their stages and defaults,
// and the gates of a server as a value. The code that a gate changes reads it; the table has a
// short description for users.
package feature

import (
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
)

//go:embed gates.tsv
var table string

// Gate is the name of a feature gate, as --feature-gates has it.
type Gate string

// Stage is the maturity of a feature.
type Stage string

// Stages, as metrics and documents write them.
const (
	Alpha      Stage = "ALPHA"
	Beta       Stage = "BETA"
	GA         Stage = "GA"
	Deprecated Stage = "DEPRECATED"
)

// Spec is the definition of a gate in v1.37.
type Spec struct {
	Gate    Gate
	Default bool
	Stage   Stage
	// Locked gates can only be set to their default.
	Locked bool
	// Needs are gates without which this one cannot be on.
	Needs []Gate
	// Changes describes the effect of the gate in this server; "" without one.
	Changes string
}

// Known returns the gates of v1.37 in order of their names.
func Known() iter.Seq[Spec] {
	return func(yield func(Spec) bool) {
		for line := range strings.Lines(table) {
			if !strings.HasPrefix(line, "#") && !yield(parseSpec(line)) {
				return
			}
		}
	}
}

// parseSpec parses a line of the table, in which "-" means empty.
func parseSpec(line string) Spec {
	column := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
	spec := Spec{Gate: Gate(column[0]), Default: column[1] == "true", Stage: Stage(column[2]), Locked: column[3] == "locked"}
	if column[4] != "-" {
		for need := range strings.SplitSeq(column[4], ",") {
			spec.Needs = append(spec.Needs, Gate(need))
		}
	}
	if column[5] != "-" {
		spec.Changes = column[5]
	}
	return spec
}

// Gates is a set of enabled gates. The zero value has none; Defaults has those of v1.37. It is
// immutable and safe for concurrent use.
type Gates struct{ on map[Gate]bool }

// Defaults returns the default gates of v1.37.
func Defaults() Gates {
	on := make(map[Gate]bool)
	for spec := range Known() {
		if spec.Default {
			on[spec.Gate] = true
		}
	}
	return Gates{on}
}

// Enabled reports whether a gate is on.
func (g Gates) Enabled(gate Gate) bool { return g.on[gate] }

// Set contains explicitly enabled and disabled gates.
type Set map[Gate]bool

// Parse parses a value of --feature-gates, NAME=true or NAME=false separated by commas, and adds it
// to the set. A name may have the component prefix "kube:". Defaults().With validates the set.
func (s Set) Parse(value string) error {
	for item := range strings.SplitSeq(value, ",") {
		if item == "" {
			continue
		}
		name, text, ok := strings.Cut(item, "=")
		name, text = strings.TrimPrefix(strings.TrimSpace(name), "kube:"), strings.TrimSpace(text)
		if !ok {
			return fmt.Errorf("missing bool value for %s", name)
		}
		on, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("invalid value of %s=%s, err: %w", name, text, err)
		}
		s[Gate(name)] = on
	}
	return nil
}

// Gates for all gates of a stage.
const (
	allAlpha Gate = "AllAlpha"
	allBeta  Gate = "AllBeta"
)

// With returns the gates modified by a set. AllAlpha and AllBeta apply to gates of their stage that
// the set does not contain. The error, with kube-apiserver's message, lists all invalid gates.
func (g Gates) With(set Set) (Gates, error) {
	on := maps.Clone(g.on)
	if on == nil {
		on = make(map[Gate]bool)
	}
	unknown := maps.Clone(set)
	var errs []error
	for spec := range Known() {
		delete(unknown, spec.Gate)
		wanted, ok := set.of(spec)
		switch {
		case !ok:
		case spec.Locked && wanted != spec.Default:
			errs = append(errs, fmt.Errorf("cannot set feature gate %s to %t, feature is locked to %t", spec.Gate, wanted, spec.Default))
		default:
			on[spec.Gate] = wanted
		}
	}
	for _, gate := range slices.Sorted(maps.Keys(unknown)) {
		errs = append(errs, fmt.Errorf("unrecognized feature gate: %s", gate))
	}
	with := Gates{on}
	if len(errs) == 0 {
		errs = with.missing()
	}
	return with, errors.Join(errs...)
}

// Parse is With for the value of --feature-gates.
func (g Gates) Parse(value string) (Gates, error) {
	set := Set{}
	if err := set.Parse(value); err != nil {
		return Gates{}, err
	}
	return g.With(set)
}

// of returns what the set makes of a gate, and whether it makes anything of it.
func (s Set) of(spec Spec) (on, ok bool) {
	if on, ok = s[spec.Gate]; ok || spec.Gate == allAlpha || spec.Gate == allBeta {
		return on, ok
	}
	switch spec.Stage {
	case Alpha:
		on, ok = s[allAlpha]
	case Beta:
		on, ok = s[allBeta]
	}
	return on, ok
}

// missing returns an error for each gate that is on without what it needs.
func (g Gates) missing() []error {
	var errs []error
	for spec := range Known() {
		if !g.Enabled(spec.Gate) {
			continue
		}
		if off := slices.DeleteFunc(spec.Needs, g.Enabled); len(off) > 0 {
			errs = append(errs, fmt.Errorf("%s is enabled, but depends on features that are disabled: %v", spec.Gate, off))
		}
	}
	return errs
}
