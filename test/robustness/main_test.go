package robustness

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"mainstay.dev/mainstay/test/testserver"
)

var (
	seedFlag       = flag.Uint64("seed", 0, "seed of the random choices; 0 takes one from the clock")
	killsFlag      = flag.Int("kills", 0, "number of kills of the server in TestCrashes; 0 is at most 10 in a minute, 3 with -short")
	faultsFlag     = flag.Int("faults", 5, "how many faults strike in TestFaults, of all kinds by turns")
	operationsFlag = flag.Int("operations", 1000, "number of requests in the history of each linearizability test")
)

// shortOperations is the number of operations in a history with -short, unless -operations is set.
const shortOperations = 300

func TestMain(m *testing.M) {
	flag.Parse()
	if isSet := false; testing.Short() {
		flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "operations" })
		if !isSet {
			*operationsFlag = shortOperations
		}
	}
	os.Exit(testserver.Main(m))
}

// random returns the random source of a test and logs its seed. The sources of the test's goroutines are
// branched from it.
func random(t *testing.T) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// branch returns a new random source for another goroutine.
func branch(rng *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())) }
