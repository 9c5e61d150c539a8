// Package apps is a fixture.
package apps

const kind = "Pump"

type spec struct{ Speed, Mode string }

// Validate uses fields.
func Validate(s spec) string { return kind + s.Speed + s.Mode }
