// Package konnectivity tests a server that connects to nodes through the real konnectivity proxy
// server and agent.
package konnectivity
