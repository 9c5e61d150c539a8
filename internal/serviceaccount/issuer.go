package serviceaccount

import "time"

// Issuer is what tokens are issued by. It is immutable.
type Issuer struct {
	Keys Keys
	// Name is the claim iss.
	Name string
	// Audiences are those of the server itself, for whoever asks for none.
	Audiences []string
	// MaxExpiration bounds how long tokens last; 0 does not.
	MaxExpiration time.Duration
	// MaxLifetime bounds how long any token lasts, extended ones too; 0 does not.
	MaxLifetime time.Duration
	// Extend lets the tokens that pods are given last for a year, with the time from
	// which on their use is counted as stale.
	Extend bool
}
