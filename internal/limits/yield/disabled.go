//go:build noyield

package yield

const enabled = false
