package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/filters/faults"
	"mainstay.dev/mainstay/internal/host"
	"mainstay.dev/mainstay/internal/simulation"
)

// The names of the flags for test servers.
const (
	faultsFlag   = "test-faults"
	testSeedFlag = "test-seed"
	testTimeFlag = "test-time"
)

// testFlags contains the flags for test servers.
type testFlags struct {
	faults bool
	seed   uint64
	time   string
}

func (f *testFlags) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&f.faults, faultsFlag, false, "let administrators inject faults with "+faults.Path+", and change the clock with "+faults.ClockPath+"; for tests only: see docs/testing.md")
	flags.Uint64Var(&f.seed, testSeedFlag, 0, "derive UIDs and generated names from this number; requires --"+faultsFlag)
	flags.StringVar(&f.time, testTimeFlag, "", "initial time of the clock, such as 2030-01-02T15:04:05Z; requires --"+faultsFlag)
}

// applyTo validates the flags and sets config accordingly. all contains all flags of the command.
func (f *testFlags) applyTo(all *pflag.FlagSet, config *host.TestingConfig) error {
	if !f.faults {
		for _, name := range []string{testSeedFlag, testTimeFlag} {
			if all.Changed(name) {
				return fmt.Errorf("--%s requires --%s", name, faultsFlag)
			}
		}
		return nil
	}
	simulated := simulation.Config{Seed: f.seed}
	if f.time != "" {
		var err error
		if simulated.Time, err = time.Parse(time.RFC3339, f.time); err != nil {
			return fmt.Errorf("--%s: %w", testTimeFlag, err)
		}
	}
	config.Faults, config.Simulation = new(faults.Set), simulation.New(simulated)
	return nil
}
