package feature

import (
	_ "embed"
	"iter"
	"strconv"

	"mainstay.dev/mainstay/internal/feature/tsv"
)

// The oldest and the newest minor version of Kubernetes whose gates are known. gates.tsv contains the gates of
// Newest.
const (
	Oldest = 33
	Newest = 37
)

//go:embed history.tsv
var historyTable string

// KnownIn returns the gates of a minor version from Oldest to Newest, sorted by name. Their dependencies and
// effects are those of the Newest version. For an older version, each iteration over the result parses the
// history table again.
func KnownIn(minor int) iter.Seq[Spec] {
	if minor == Newest {
		return Known()
	}
	return func(yield func(Spec) bool) {
		earlier := statesIn(minor)
		for spec := range Known() {
			if state, ok := earlier[spec.Gate]; ok {
				if state.Stage == "" {
					continue
				}
				spec.Default, spec.Stage, spec.Locked = state.Default, state.Stage, state.Locked
			}
			if !yield(spec) {
				return
			}
		}
	}
}

// statesIn returns the gates whose state in a minor version differs from their state in Newest. The stage of a
// gate is "" if the version does not have the gate.
func statesIn(minor int) map[Gate]Spec {
	states := map[Gate]Spec{}
	for column := range tsv.Rows(historyTable) {
		gate := Gate(column[0])
		last, err := strconv.Atoi(column[1])
		if _, found := states[gate]; found || err != nil || last < minor {
			continue
		}
		state := Spec{Gate: gate, Default: column[2] == "true", Locked: column[4] == "locked"}
		if column[3] != "-" {
			state.Stage = Stage(column[3])
		}
		states[gate] = state
	}
	return states
}
