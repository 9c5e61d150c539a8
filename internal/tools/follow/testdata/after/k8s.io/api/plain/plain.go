// Package plain is a fixture.
package plain
