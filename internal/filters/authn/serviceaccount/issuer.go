package serviceaccount

import "time"

// Issuer is the configuration for issuing tokens. It is immutable.
type Issuer struct {
	Keys Keys
	// Name is the value of the claim "iss".
	Name string
	// Audiences are the default audiences of tokens, which are the audiences of the server.
	Audiences []string
	// MaxExpiration limits the lifetime that a client can request; 0 means no limit.
	MaxExpiration time.Duration
	// MaxLifetime limits the lifetime of every token, including extended lifetimes; 0 means no limit.
	MaxLifetime time.Duration
	// Extend extends the lifetime of tokens for pods to a year. These tokens also contain the
	// requested expiration, after which their use counts as stale.
	Extend bool
}
