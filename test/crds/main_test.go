package crds

import (
	"os"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// behaviour is one thing that users of custom resources rely on.
type behaviour struct {
	name string
	run  func(t *testing.T, w *world)
}

func TestCustomResources(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{})
	for theme, behaviours := range map[string][]behaviour{
		"samples":      samples(t),
		"refused":      refusing,
		"lifecycle":    living,
		"objects":      handlingObjects,
		"pruning":      pruning,
		"defaulting":   defaulting,
		"validation":   validating,
		"ratcheting":   ratcheting,
		"subresources": subresources,
		"columns":      columns,
		"versions":     versions,
		"fields":       selectingFields,
		"apply":        applying,
	} {
		t.Run(theme, func(t *testing.T) {
			t.Parallel()
			for _, b := range behaviours {
				t.Run(b.name, func(t *testing.T) {
					t.Parallel()
					b.run(t, newWorld(t, srv))
				})
			}
		})
	}
}
