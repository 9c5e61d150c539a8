//go:build !noyield

package yield

const enabled = true
