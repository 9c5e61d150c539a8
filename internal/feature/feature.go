// Package feature holds the feature gates of Kubernetes v1.37 as a value: which
// there are, of which stage, what their defaults are, and which are on for one
// server. What a gate changes stands where it is changed; the table says it in a
// phrase, for people.
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

// Stage is how far a feature has come.
type Stage string

// Stages, as metrics and documents write them.
const (
	Alpha      Stage = "ALPHA"
	Beta       Stage = "BETA"
	GA         Stage = "GA"
	Deprecated Stage = "DEPRECATED"
)

// Spec is what v1.37 says of a gate.
type Spec struct {
	Gate    Gate
	Default bool
	Stage   Stage
	// Locked gates can be set to their default alone.
	Locked bool
	// Needs are gates without which this one cannot be on.
	Needs []Gate
	// Changes says in a phrase what the gate changes in this server; "": nothing.
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

// parseSpec reads a line of the table, in which "-" is nothing.
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

// Gates says which gates are on. The zero value has none on; Defaults has those
// that v1.37 has on. It is immutable and may be used concurrently.
type Gates struct{ on map[Gate]bool }

// Defaults returns the gates as v1.37 has them where nobody says otherwise.
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

// Set are gates that somebody has set, on or off.
type Set map[Gate]bool

// Parse reads a value of --feature-gates, NAME=true or NAME=false separated by
// commas, and adds it to the set. A name may be prefixed by the component,
// "kube:". Whether the gates can be set so is for Defaults().With to say.
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

// Gates that stand for all of a stage.
const (
	allAlpha Gate = "AllAlpha"
	allBeta  Gate = "AllBeta"
)

// With returns the gates with those of the set as they are set there. AllAlpha
// and AllBeta set those of their stage that the set does not name. The error, in
// kube-apiserver's words, names everything that cannot be.
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
