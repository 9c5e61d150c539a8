// Package feature holds the feature gates of Kubernetes v1.37 as a value: which
// there are, what their defaults are, and which are on for one server. It knows
// nothing of what a gate changes; that stands where it is changed.
//
// Imports: nothing of ours.
package feature

import (
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
)

//go:embed gates.tsv
var table string

// Gate is the name of a feature gate, as --feature-gates has it.
type Gate string

// Gates that rules in this server look at.
const (
	CompositePodGroup                            Gate = "CompositePodGroup"
	DeclarativeValidationBeta                    Gate = "DeclarativeValidationBeta"
	DRAConsumableCapacity                        Gate = "DRAConsumableCapacity"
	DRAFractionalCapacityRange                   Gate = "DRAFractionalCapacityRange"
	DRAListTypeAttributes                        Gate = "DRAListTypeAttributes"
	DRAPartitionableDevicesType                  Gate = "DRAPartitionableDevicesType"
	DRAResourceClaimGranularStatusAuthorization  Gate = "DRAResourceClaimGranularStatusAuthorization"
	InPlacePodVerticalScalingSchedulerPreemption Gate = "InPlacePodVerticalScalingSchedulerPreemption"
	PodGroupPreemptionPolicy                     Gate = "PodGroupPreemptionPolicy"
	StrictIPCIDRValidation                       Gate = "StrictIPCIDRValidation"
	TopologyAwareWorkloadScheduling              Gate = "TopologyAwareWorkloadScheduling"
	WorkloadWithJob                              Gate = "WorkloadWithJob"
)

// Gates says which gates are on. The zero value has none on; Defaults has those
// that v1.37 has on. It is immutable and may be used concurrently.
type Gates struct{ on map[Gate]bool }

// Defaults returns the gates as v1.37 has them where nobody says otherwise.
func Defaults() Gates {
	on := make(map[Gate]bool)
	for gate, preset := range Known() {
		if preset {
			on[gate] = true
		}
	}
	return Gates{on}
}

// Enabled reports whether a gate is on.
func (g Gates) Enabled(gate Gate) bool { return g.on[gate] }

// Known returns the gates of v1.37 with their defaults, in order of their names.
func Known() iter.Seq2[Gate, bool] {
	return func(yield func(Gate, bool) bool) {
		for line := range strings.Lines(table) {
			name, preset, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			if ok && !strings.HasPrefix(name, "#") && !yield(Gate(name), preset == "true") {
				return
			}
		}
	}
}

// Parse reads the value of --feature-gates, NAME=true or NAME=false separated by
// commas, on top of g. A name may be prefixed by the component, "kube:". Its
// error names everything that is wrong.
func (g Gates) Parse(value string) (Gates, error) {
	on, known := make(map[Gate]bool), make(map[Gate]bool)
	for gate := range Known() {
		known[gate] = true
		if g.on[gate] {
			on[gate] = true
		}
	}
	var errs []error
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, wanted, ok := strings.Cut(strings.TrimPrefix(item, "kube:"), "=")
		enabled, err := strconv.ParseBool(wanted)
		switch gate := Gate(name); {
		case !ok || err != nil:
			errs = append(errs, fmt.Errorf("%q is not NAME=true or NAME=false", item))
		case !known[gate]:
			errs = append(errs, fmt.Errorf("feature gate %s is not known", name))
		case enabled:
			on[gate] = true
		default:
			delete(on, gate)
		}
	}
	return Gates{on}, errors.Join(errs...)
}
