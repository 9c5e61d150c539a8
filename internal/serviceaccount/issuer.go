package serviceaccount

import "time"

// Issuer is the configuration of issued tokens. It is immutable.
type Issuer struct {
	Keys Keys
	// Name is the claim iss.
	Name string
	// Audiences are the default audiences: those of the server.
	Audiences []string
	// MaxExpiration bounds how long tokens last; 0 does not.
	MaxExpiration time.Duration
	// MaxLifetime bounds how long any token lasts, extended ones too; 0 does not.
	MaxLifetime time.Duration
	// Extend extends the tokens of pods to a year, with the time after which their use counts as
	// stale.
	Extend bool
}
