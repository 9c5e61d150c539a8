//go:build !linux

package e2e

// onTerminal skips the test, because terminals are only supported on Linux.
func (k *kubectl) onTerminal(_, _ uint16, args ...string) string {
	k.t.Skipf("kubectl %v needs a terminal", args)
	return ""
}
