// Package konnectivity runs a server whose connections to nodes go through the real
// konnectivity: its proxy server, and an agent that dials.
package konnectivity
