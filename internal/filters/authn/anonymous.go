package authn

import "slices"

// AnonymousConfig selects the paths for which requests without credentials are accepted. Its JSON
// form is defined by AuthenticationConfiguration.
type AnonymousConfig struct {
	Enabled bool `json:"enabled"`
	// Conditions are the accepted paths. An empty list accepts all paths.
	Conditions []AnonymousCondition `json:"conditions,omitempty"`
}

// AnonymousCondition is an exact URL path, without wildcards.
type AnonymousCondition struct {
	Path string `json:"path"`
}

// Allows reports whether requests for a path are accepted without credentials. c must not be nil.
func (c *AnonymousConfig) Allows(path string) bool {
	return c.Enabled && (len(c.Conditions) == 0 || slices.Contains(c.Conditions, AnonymousCondition{path}))
}
