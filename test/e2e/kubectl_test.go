package e2e

import (
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

// kubectlBehavior is a test of one way of using kubectl.
type kubectlBehavior struct {
	name string
	run  func(t *testing.T, k *kubectl)
}

func TestKubectl(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{})
	home := t.TempDir()
	for theme, behaviors := range map[string][]kubectlBehavior{
		"apply":    applying,
		"get":      getting,
		"explain":  explaining,
		"create":   creating,
		"change":   changing,
		"rollout":  rollingOut,
		"delete":   deleting,
		"validate": validating,
		"node":     keepingNodes,
		"custom":   defining,
		"connect":  connecting,
	} {
		t.Run(theme, func(t *testing.T) {
			t.Parallel()
			for _, b := range behaviors {
				t.Run(b.name, func(t *testing.T) {
					t.Parallel()
					b.run(t, newKubectl(t, srv, home))
				})
			}
		})
	}
}
