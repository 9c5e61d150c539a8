package authn

import "slices"

// AnonymousConfig selects the paths for which requests without credentials are accepted. Its fields
// are defined by AuthenticationConfiguration.
type AnonymousConfig struct {
	Enabled bool `json:"enabled"`
	// Conditions are the paths; empty means all.
	Conditions []AnonymousCondition `json:"conditions,omitempty"`
}

// AnonymousCondition is a path, as it is written in a request.
type AnonymousCondition struct {
	Path string `json:"path"`
}

// Allows reports whether requests for a path pass without credentials.
func (c *AnonymousConfig) Allows(path string) bool {
	return c.Enabled && (len(c.Conditions) == 0 || slices.Contains(c.Conditions, AnonymousCondition{path}))
}
