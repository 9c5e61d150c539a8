//go:build !linux

package e2e

// onTerminal is not supported on this system.
func (k *kubectl) onTerminal(_, _ uint16, args ...string) string {
	k.t.Skipf("kubectl %v needs a terminal", args)
	return ""
}
