// Package feature contains the feature gates of Kubernetes, with their stages and defaults in each minor
// version from Oldest to Newest. Gates contains the enabled gates of a server. The table gates.tsv describes
// the effects of the gates for users.
package feature

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mainstay.dev/mainstay/internal/feature/tsv"
)

//go:embed gates.tsv
var table string

// Gate is the name of a feature gate in --feature-gates.
type Gate string

// Stage is the maturity of a feature, as in metrics and documents.
type Stage string

// The stages of a feature.
const (
	Alpha      Stage = "ALPHA"
	Beta       Stage = "BETA"
	GA         Stage = "GA"
	Deprecated Stage = "DEPRECATED"
)

// Spec describes a gate in a minor version of Kubernetes.
type Spec struct {
	Gate    Gate
	Default bool
	Stage   Stage
	// Locked means that the gate can only be set to its default.
	Locked bool
	// DependsOn lists the gates that must be enabled if this gate is enabled.
	DependsOn []Gate
	// Effect describes the effect of the gate on this server. It is empty if the gate has no effect.
	Effect string
}

// specs parses the table.
var specs = sync.OnceValue(func() (all []Spec) {
	for column := range tsv.Rows(table) {
		all = append(all, parseSpec(column))
	}
	return all
})

// Known returns the gates of the Newest version, sorted by name. The slices in the returned Specs must not be
// modified.
func Known() iter.Seq[Spec] { return slices.Values(specs()) }

// parseSpec parses a row of the table, in which "-" stands for an empty column.
func parseSpec(column []string) Spec {
	spec := Spec{Gate: Gate(column[0]), Default: column[1] == "true", Stage: Stage(column[2]), Locked: column[3] == "locked"}
	if column[4] != "-" {
		for need := range strings.SplitSeq(column[4], ",") {
			spec.DependsOn = append(spec.DependsOn, Gate(need))
		}
	}
	if column[5] != "-" {
		spec.Effect = column[5]
	}
	return spec
}

// Gates contains the enabled gates of one minor version. In the zero value, all gates are disabled. It is
// immutable and safe for concurrent use.
type Gates struct {
	on    map[Gate]bool
	minor int // 0 means Newest
}

// Defaults returns the gates that are enabled by default in the Newest version.
func Defaults() Gates { return DefaultsOf(Newest) }

// DefaultsOf returns the gates that are enabled by default in a minor version.
func DefaultsOf(minor int) Gates {
	on := make(map[Gate]bool)
	for spec := range KnownIn(minor) {
		if spec.Default {
			on[spec.Gate] = true
		}
	}
	return Gates{on, minor}
}

// Minor returns the minor version.
func (g Gates) Minor() int { return cmp.Or(g.minor, Newest) }

// Known returns all gates of the minor version, including disabled ones (see KnownIn).
func (g Gates) Known() iter.Seq[Spec] { return KnownIn(g.Minor()) }

// Enabled reports whether a gate is enabled. It returns false for an unknown gate.
func (g Gates) Enabled(gate Gate) bool { return g.on[gate] }

// Set maps gates to explicit settings. It is not safe for concurrent use.
type Set map[Gate]bool

// Parse parses a value of --feature-gates, a comma-separated list of NAME=true or NAME=false, and adds the
// settings to the set. A name may have the component prefix "kube:". Parse checks only the syntax; Gates.With
// validates the set. If Parse returns an error, it might have added some of the settings.
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

// Gates that set all gates of a stage.
const (
	allAlpha Gate = "AllAlpha"
	allBeta  Gate = "AllBeta"
)

// With returns a copy of the gates with the settings of a set. AllAlpha and AllBeta set all gates of the
// respective stage that are not in the set. It returns an error with kube-apiserver's messages if the set
// contains unknown gates, changes locked gates, or violates dependencies.
func (g Gates) With(set Set) (Gates, error) {
	on := maps.Clone(g.on)
	if on == nil {
		on = make(map[Gate]bool)
	}
	unknown := maps.Clone(set)
	var errs []error
	for spec := range g.Known() {
		delete(unknown, spec.Gate)
		value, ok := set.override(spec)
		switch {
		case !ok:
		case spec.Locked && value != spec.Default:
			errs = append(errs, fmt.Errorf("cannot set feature gate %s to %t, feature is locked to %t", spec.Gate, value, spec.Default))
		default:
			on[spec.Gate] = value
		}
	}
	for spec := range Known() {
		if value, ok := unknown[spec.Gate]; ok {
			delete(unknown, spec.Gate)
			errs = append(errs, fmt.Errorf("cannot set feature gate %s to %t, feature is PreAlpha at emulated version 1.%d", spec.Gate, value, g.minor))
		}
	}
	for _, gate := range slices.Sorted(maps.Keys(unknown)) {
		errs = append(errs, fmt.Errorf("unrecognized feature gate: %s", gate))
	}
	with := Gates{on, g.minor}
	if len(errs) == 0 {
		errs = with.dependencyErrors()
	}
	return with, errors.Join(errs...)
}

// Parse is like With, for the value of a --feature-gates flag. It also returns the errors of Set.Parse.
func (g Gates) Parse(value string) (Gates, error) {
	set := Set{}
	if err := set.Parse(value); err != nil {
		return Gates{}, err
	}
	return g.With(set)
}

// override returns the setting for a gate. ok is false if the set does not affect the gate.
func (s Set) override(spec Spec) (on, ok bool) {
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

// dependencyErrors returns an error for each enabled gate that depends on disabled gates.
func (g Gates) dependencyErrors() []error {
	var errs []error
	for spec := range g.Known() {
		if !g.Enabled(spec.Gate) {
			continue
		}
		if off := slices.DeleteFunc(slices.Clone(spec.DependsOn), g.Enabled); len(off) > 0 {
			errs = append(errs, fmt.Errorf("%s is enabled, but depends on features that are disabled: %v", spec.Gate, off))
		}
	}
	return errs
}
