//go:build !linux

package e2e

// onTerminal needs Linux's terminals.
func (k *kubectl) onTerminal(_, _ uint16, args ...string) string {
	k.t.Skipf("kubectl %v needs a terminal", args)
	return ""
}
