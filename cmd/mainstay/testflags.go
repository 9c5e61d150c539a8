package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/filters/faults"
	"mainstay.dev/mainstay/internal/simulation"
)

// testFlags are the flags of servers for tests.
type testFlags struct {
	faults bool
	seed   uint64
	time   string
}

// Names of them.
const (
	faultsFlag   = "test-faults"
	testSeedFlag = "test-seed"
	testTimeFlag = "test-time"
)

func (f *serveFlags) testing(flags *pflag.FlagSet) {
	flags.BoolVar(&f.tests.faults, faultsFlag, false, "let administrators inject faults with "+faults.Path+", and change the clock with "+faults.ClockPath+"; for tests only: see docs/testing.md")
	flags.Uint64Var(&f.tests.seed, testSeedFlag, 0, "derive UIDs and generated names from this number; requires --"+faultsFlag)
	flags.StringVar(&f.tests.time, testTimeFlag, "", "initial time of the clock, such as 2030-01-02T15:04:05Z; requires --"+faultsFlag)
}

// simulate applies the flags for tests.
func (f *serveFlags) simulate() error {
	if !f.tests.faults {
		for _, name := range []string{testSeedFlag, testTimeFlag} {
			if f.all.Changed(name) {
				return fmt.Errorf("--%s requires --%s", name, faultsFlag)
			}
		}
		return nil
	}
	config := simulation.Config{Seed: f.tests.seed}
	if f.tests.time != "" {
		var err error
		if config.Time, err = time.Parse(time.RFC3339, f.tests.time); err != nil {
			return fmt.Errorf("--%s: %w", testTimeFlag, err)
		}
	}
	f.config.Faults, f.config.World = new(faults.Set), simulation.New(config)
	return nil
}
